// splitArgs splits a line of command-line options as a shell does: at spaces, but not inside quotes.
export function splitArgs(line: string): string[] {
  const found = line.match(/(?:[^\s"']+|"[^"]*"|'[^']*')+/g) ?? [];
  return found.map((arg) =>
    arg.replace(/"([^"]*)"|'([^']*)'/g, (_, double?: string, single?: string) => double ?? single ?? ""),
  );
}

// joinArgs makes a line that splitArgs splits into the same options.
export function joinArgs(args: readonly string[]): string {
  return args.map(quoted).join(" ");
}

function quoted(arg: string): string {
  if (arg !== "" && !/[\s"']/.test(arg)) return arg;
  if (!arg.includes('"')) return `"${arg}"`;
  if (!arg.includes("'")) return `'${arg}'`;
  return arg
    .split(/(")/)
    .map((part) => (part === '"' ? `'"'` : part === "" ? "" : `"${part}"`))
    .join("");
}
