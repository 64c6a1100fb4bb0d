import type { Piece } from "./ansi";

// highlighter returns the pattern of a search for this browser, to mark what was found. The server's patterns need linear
// time; those of a browser do not, and the pattern may come from a link. So a pattern that repeats or groups is not tried
// here: its lines are marked as a whole.
export function highlighter(pattern: string, caseMatters: boolean): RegExp | null {
  const risky = pattern.replace(/\\./g, "").replace(/\[[^\]]*\]/g, "");
  if (pattern === "" || /[()*+?{}]/.test(risky)) return null;
  try {
    return new RegExp(pattern, caseMatters ? "gu" : "giu");
  } catch {
    return null;
  }
}

export type Marked = Piece & { found: boolean };

// mark cuts the pieces of a line where matches begin and end.
export function mark(pieces: readonly Piece[], pattern: RegExp | null): Marked[] {
  if (pattern === null) return pieces.map((piece) => ({ ...piece, found: false }));
  const text = pieces.map((piece) => piece.text).join("");
  const ends = [...text.matchAll(pattern)].flatMap((m) => (m[0] ? [[m.index, m.index + m[0].length] as const] : []));
  const marked: Marked[] = [];
  let start = 0;
  for (const { text, style } of pieces) {
    const end = start + text.length;
    let at = start;
    for (const [from, to] of ends) {
      if (to <= at || from >= end) continue;
      const begin = Math.max(from, at);
      const stop = Math.min(to, end);
      if (begin > at) marked.push({ text: text.slice(at - start, begin - start), style, found: false });
      marked.push({ text: text.slice(begin - start, stop - start), style, found: true });
      at = stop;
    }
    if (at < end) marked.push({ text: text.slice(at - start), style, found: false });
    start = end;
  }
  return marked;
}
