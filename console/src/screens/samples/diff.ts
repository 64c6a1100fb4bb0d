export type Change = { kind: "same" | "added" | "removed"; text: string };

// The most pairs of words that are compared. Longer texts are compared by line, and then as a whole.
const most = 4_000_000;

// wordDiff returns how a text became another one, word by word.
export function wordDiff(before: string, after: string): Change[] {
  const words = (text: string) => text.match(/\s+|[\p{L}\p{N}_]+|[^\s]/gu) ?? [];
  const fine = diff(words(before), words(after));
  if (fine) return fine;
  const lines = (text: string) => text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
  return (
    diff(lines(before), lines(after)) ??
    join([
      ["removed", before],
      ["added", after],
    ])
  );
}

type Piece = [Change["kind"], string];

function diff(a: string[], b: string[]): Change[] | null {
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const middle = compare(a.slice(start, a.length - end), b.slice(start, b.length - end));
  if (middle === null) return null;
  const same = (text: string): Piece => ["same", text];
  return join([...a.slice(0, start).map(same), ...middle, ...a.slice(a.length - end).map(same)]);
}

// compare finds the longest common subsequence of two lists.
function compare(a: string[], b: string[]): Piece[] | null {
  if (a.length * b.length > most) return null;
  const width = b.length + 1;
  const lengths = new Uint32Array((a.length + 1) * width);
  const at = (i: number, j: number) => lengths[i * width + j] ?? 0;
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      lengths[i * width + j] = a[i] === b[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
  const pieces: Piece[] = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      pieces.push(["same", a[i++] ?? ""]);
      j++;
    } else if (j >= b.length || (i < a.length && at(i + 1, j) >= at(i, j + 1))) pieces.push(["removed", a[i++] ?? ""]);
    else pieces.push(["added", b[j++] ?? ""]);
  }
  return pieces;
}

// join makes one change of neighbours of the same kind.
function join(pieces: Piece[]): Change[] {
  const changes: Change[] = [];
  for (const [kind, text] of pieces) {
    const last = changes.at(-1);
    if (last?.kind === kind) last.text += text;
    else if (text !== "") changes.push({ kind, text });
  }
  return changes;
}
