// Colours that people with any colour vision can tell apart, for light and for dark. The order puts different ones next to
// each other.
const light = [
  "#0b6e99",
  "#c2410c",
  "#6d3fc0",
  "#0d6e52",
  "#a8246f",
  "#8a6100",
  "#2f5fd0",
  "#7a4a21",
  "#00808a",
  "#b0303a",
  "#566b00",
  "#4b5563",
];
const dark = [
  "#63c1ee",
  "#ff9a5c",
  "#b79bff",
  "#5fd3a6",
  "#f48ac4",
  "#e6c15a",
  "#8fb2ff",
  "#d4a27a",
  "#5ad0d8",
  "#ff9d92",
  "#b9d15c",
  "#b6c0cc",
];

// The dashes of each further round of colours, from the second one on.
const dashes = [
  [6, 3],
  [2, 2],
  [10, 3, 2, 3],
  [14, 4],
];

export type Ink = { color: string; dash?: number[] };

// inks gives each run a colour that follows from its id, so that it is the same in each chart and after a reload. Of two
// runs with the same colour, the later id gets the next free one. After twelve runs the lines are dashed, in
// another way for each further twelve.
export function inks(ids: readonly string[], theme: "light" | "dark"): Map<string, Ink> {
  const set = theme === "dark" ? dark : light;
  const taken = new Set<number>();
  const all = new Map<string, Ink>();
  for (const id of [...new Set(ids)].sort()) {
    const round = Math.floor(all.size / set.length);
    if (taken.size === set.length) taken.clear();
    let at = hash(id) % set.length;
    while (taken.has(at)) at = (at + 1) % set.length;
    taken.add(at);
    const color = set[at] ?? "currentColor";
    all.set(id, round === 0 ? { color } : { color, dash: dashes[(round - 1) % dashes.length] });
  }
  return all;
}

// hash is FNV-1a.
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) value = Math.imul(value ^ text.charCodeAt(at), 0x01000193);
  return value >>> 0;
}
