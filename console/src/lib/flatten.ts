// Pairs are the values of a document by their paths, such as ["limits.turns", "20"].
export type Pairs = [string, string][];

const most = 2000;

// flatten lists the values of a document. Objects in lists are named by their key, name or id where all have one, so that
// a list that lost its first element differs in one place.
export function flatten(document: unknown): Pairs {
  const pairs: Pairs = [];
  walk(document, "", pairs);
  return pairs;
}

function walk(value: unknown, path: string, pairs: Pairs): void {
  if (pairs.length >= most || value === null || value === undefined || value === "") return;
  if (Array.isArray(value)) {
    const name = nameIn(value);
    if (name) for (const item of value) walk(without(item, name), `${path}[${String(item[name])}]`, pairs);
    else if (value.every((item) => typeof item !== "object" || item === null)) {
      if (value.length > 0) pairs.push([path, value.map(String).join(", ")]);
    } else for (const [at, item] of value.entries()) walk(item, `${path}[${at}]`, pairs);
    return;
  }
  if (typeof value === "object") {
    for (const [key, member] of Object.entries(value)) walk(member, path === "" ? key : `${path}.${key}`, pairs);
    return;
  }
  pairs.push([path, String(value)]);
}

function nameIn(list: readonly unknown[]): string | null {
  for (const name of ["key", "name", "id"]) {
    const names = list.map((item) => (isObject(item) ? item[name] : undefined));
    if (names.length > 0 && names.every((n) => typeof n === "string") && new Set(names).size === names.length)
      return name;
  }
  return null;
}

function without(item: unknown, name: string): unknown {
  if (!isObject(item)) return item;
  const { [name]: _, ...rest } = item;
  return rest;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export type Difference = { path: string; before: string | null; after: string | null };

// differences compares two documents, in the order of the second one.
export function differences(before: unknown, after: unknown): Difference[] {
  const old = new Map(flatten(before));
  const now = new Map(flatten(after));
  return [...new Set([...now.keys(), ...old.keys()])]
    .map((path) => ({ path, before: old.get(path) ?? null, after: now.get(path) ?? null }))
    .filter((d) => d.before !== d.after);
}
