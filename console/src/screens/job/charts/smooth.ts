// smooth returns the exponential moving average of values, corrected for its start at zero. Rows without a value stay so
// and do not change the average. weight is from 0, no smoothing, to 0.99.
export function smooth(values: readonly (number | null)[], weight: number): (number | null)[] {
  let sum = 0;
  let left = 1;
  return values.map((value) => {
    if (value === null) return null;
    sum = sum * weight + value * (1 - weight);
    left *= weight;
    return sum / (1 - left);
  });
}
