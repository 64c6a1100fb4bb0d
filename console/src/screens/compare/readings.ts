import type { Line } from "@/screens/job/charts/plot-data";
import { within } from "./diff";

// A reading is the value of a line at a place: null for NaN and infinities, undefined if the line has none there, because
// its run began later or had ended. mean is whether the value is that of several points.
export type Reading = { line: Line; value: number | null | undefined; mean: boolean };

// readings returns the value of each line at a place, the highest first.
export function readings(lines: readonly Line[], place: number): Reading[] {
  const rank = ({ value }: Reading) => value ?? (value === null ? -Number.MAX_VALUE : Number.NEGATIVE_INFINITY);
  return lines
    .map((line): Reading => {
      const at = within(line.curve.x, place);
      const mean = line.curve.bucketed && (line.curve.counts[at] ?? 1) > 1;
      return { line, value: at < 0 ? undefined : (line.curve.mean[at] ?? null), mean };
    })
    .sort((a, b) => (rank(a) === rank(b) ? 0 : rank(b) - rank(a)));
}
