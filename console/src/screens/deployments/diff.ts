import type { Revision } from "./deployment";

// Change is one setting that differs between two revisions. before or after is null if one of them lacks it.
export type Change = { name: string; before: string | null; after: string | null };

// configOf returns everything that decides how a revision behaves, as names and texts.
export function configOf(revision: Revision): Map<string, string> {
  const config = new Map<string, string>();
  const { source, serving } = revision;
  if (source) {
    config.set("model", source.model_id);
    config.set("version", String(source.version));
  }
  if (!serving) return config;
  config.set("engine", serving.engine || "llamacpp");
  config.set("pool", serving.pool || "default");
  config.set("gpus", String(serving.gpus));
  for (const [name, value] of options(serving.args)) config.set(name, value);
  if (serving.command.length > 0) config.set("command", serving.command.join(" "));
  if (serving.requirements !== "") config.set("requirements", serving.requirements);
  for (const [name, seconds] of Object.entries(serving.timeouts ?? {})) {
    if (seconds) config.set(`timeouts.${name}`, String(seconds));
  }
  return config;
}

// options pairs command-line options with their values. An option that occurs twice keeps all its values.
export function options(args: readonly string[]): [string, string][] {
  const found = new Map<string, string[]>();
  let name = "args";
  for (const arg of args) {
    const [, option, value] = arg.match(/^(--?[a-zA-Z][\w-]*)(?:=(.*))?$/s) ?? [];
    if (option) {
      name = option;
      found.set(name, [...(found.get(name) ?? []), ...(value !== undefined ? [value] : [])]);
    } else {
      found.set(name, [...(found.get(name) ?? []), arg]);
    }
  }
  return [...found].map(([option, values]) => [option, values.join(" ")]);
}

// changes compares two revisions, settings of the second one first.
export function changes(before: Revision | undefined, after: Revision): Change[] {
  const old = before ? configOf(before) : new Map<string, string>();
  const now = configOf(after);
  return [...new Set([...now.keys(), ...old.keys()])]
    .map((name) => ({ name, before: old.get(name) ?? null, after: now.get(name) ?? null }))
    .filter((change) => change.before !== change.after);
}
