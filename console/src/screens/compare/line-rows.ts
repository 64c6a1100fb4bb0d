import type { Curve } from "@/screens/job/charts/curve";
import type { Line } from "@/screens/job/charts/plot-data";
import { nearest } from "./diff";

// More places than this are not listed.
export const mostPlaces = 20_000;

// placesOf returns all places at which any of the lines has a value, each once, from the lowest to the highest.
export function placesOf(lines: readonly Line[]): number[] {
  const places = new Set<number>();
  for (const { curve } of lines) for (const place of curve.x) places.add(place);
  return [...places].sort((a, b) => a - b);
}

// valueAt returns the value of a curve at a place: of its point there, or of the bucket that has this step. It is undefined
// where the curve has none, and null for NaN and infinities.
export function valueAt(curve: Curve, place: number, steps: boolean): number | null | undefined {
  const at = nearest(curve.x, place);
  for (const row of [at, at + 1, at - 1]) {
    const [first = 0, last = -1] = [curve.firstStep[row], curve.lastStep[row]];
    if (curve.x[row] === place || (steps && curve.bucketed && first <= place && place <= last)) return curve.mean[row];
  }
  return undefined;
}
