// Validators of search parameters. A value that is not valid is dropped, so that an old or mistyped link still opens.

export function text(value: unknown, longest: number): string | undefined {
  // The router parses ?q=12 as a number.
  const string = typeof value === "number" || typeof value === "boolean" ? String(value) : value;
  return typeof string === "string" && string !== "" && string.length <= longest ? string : undefined;
}

export function oneOf<T extends string>(value: unknown, allowed: readonly T[]): T | undefined {
  return allowed.find((a) => a === value);
}

export function list(value: unknown, longest: number, most: number): string[] | undefined {
  const values = (Array.isArray(value) ? value : [value]).flatMap((v) => text(v, longest) ?? []).slice(0, most);
  return values.length > 0 ? values : undefined;
}

export function integer(value: unknown, min: number, max: number): number | undefined {
  const number = typeof value === "string" ? Number(value) : value;
  return typeof number === "number" && Number.isInteger(number) && number >= min && number <= max ? number : undefined;
}
