export type DiffRow = { name: string; values: unknown[]; differs: boolean };

// diffRows lines up the properties of several objects, in the order of their names. A property that an object does not
// have is undefined. Unless equal is set, only properties that differ are returned.
export function diffRows(objects: readonly Record<string, unknown>[], equal: boolean): DiffRow[] {
  const names = [...new Set(objects.flatMap((o) => Object.keys(o)))].sort();
  const rows = names.map((name): DiffRow => {
    const values = objects.map((o) => o[name]);
    const [first] = values;
    return { name, values, differs: values.some((v) => !same(v, first)) };
  });
  return equal ? rows : rows.filter((row) => row.differs);
}

// same compares values of JSON. The order of the properties of an object does not matter.
export function same(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const [left, right] = [a as Record<string, unknown>, b as Record<string, unknown>];
  const keys = Object.keys(left);
  return keys.length === Object.keys(right).length && keys.every((key) => key in right && same(left[key], right[key]));
}

// baseFirst moves the baseline to the front and keeps the order of the others.
export function baseFirst<T extends { id: string }>(runs: readonly T[], base: string | undefined): T[] {
  const first = runs.find((run) => run.id === base) ?? runs[0];
  return first ? [first, ...runs.filter((run) => run !== first)] : [];
}

// pairOf returns the first run and the one that it is compared with, by default the second; null if there are fewer than two.
export function pairOf<T extends { id: string }>(runs: readonly T[], against: string | undefined): [T, T] | null {
  const [base, second] = runs;
  const other = runs.find((run) => run.id === against && run !== base) ?? second;
  return base && other ? [base, other] : null;
}

// within returns the index of the value of a sorted list that is closest to x; -1 if x is beyond the ends by more than half
// of the distance of the last two values there.
export function within(sorted: readonly number[], x: number): number {
  const at = nearest(sorted, x);
  const value = sorted[at];
  if (value === undefined) return -1;
  const next = at === 0 ? sorted[1] : sorted[at - 1];
  const outside = (at === 0 && x < value) || (at === sorted.length - 1 && x > value);
  if (!outside) return at;
  return next !== undefined && Math.abs(x - value) <= Math.abs(next - value) / 2 ? at : -1;
}

// nearest returns the index of the value of a sorted list that is closest to x; -1 if the list is empty.
export function nearest(sorted: readonly number[], x: number): number {
  let [low, high] = [0, sorted.length - 1];
  if (high < 0) return -1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((sorted[middle] ?? 0) < x) low = middle + 1;
    else high = middle;
  }
  const before = sorted[low - 1];
  return before !== undefined && x - before <= (sorted[low] ?? 0) - x ? low - 1 : low;
}
