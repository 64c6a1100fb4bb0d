// The name of the section of metrics without a prefix.
export const general = "";

export type Section = { name: string; keys: string[] };

// sections groups metrics by the part of their key before the first slash. search has words that must all occur in a key.
export function sections(keys: readonly string[], search: string): Section[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const found = new Map<string, string[]>();
  for (const key of keys) {
    const lower = key.toLowerCase();
    if (!words.every((word) => lower.includes(word))) continue;
    const slash = key.indexOf("/");
    const name = slash > 0 ? key.slice(0, slash) : general;
    const group = found.get(name);
    if (group) group.push(key);
    else found.set(name, [key]);
  }
  return [...found].map(([name, group]) => ({ name, keys: group }));
}
