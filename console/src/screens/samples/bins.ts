export type Bin = { from: number; to: number; count: number };

// histogram counts values in bins of equal width. NaN and infinities are not counted. If all values are equal, there is one
// bin.
export function histogram(values: readonly number[], bins: number): Bin[] {
  const finite = values.filter(Number.isFinite);
  if (finite.length === 0) return [];
  let low = Number.POSITIVE_INFINITY;
  let high = Number.NEGATIVE_INFINITY;
  for (const value of finite) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (low === high) return [{ from: low, to: high, count: finite.length }];
  const width = (high - low) / bins;
  const counted = Array.from({ length: bins }, (_, at) => ({
    from: low + at * width,
    to: at === bins - 1 ? high : low + (at + 1) * width,
    count: 0,
  }));
  for (const value of finite) {
    const bin = counted[Math.min(bins - 1, Math.floor((value - low) / width))];
    if (bin) bin.count++;
  }
  return counted;
}
