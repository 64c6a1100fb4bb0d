import type { Schemas } from "@/api/client";
import { finite } from "./number";

// A series of one run, or of a comparison.
export type Series = Pick<
  Schemas["MetricSeries"],
  "key" | "points" | "buckets" | "count" | "first" | "last" | "omitted"
>;
export type Point = Schemas["MetricPoint"];
// The stream does not say which attempt reported a point.
export type LivePoint = Omit<Point, "attempt">;
export type XKind = "step" | "relative" | "time" | "metric";

// A curve is a series as columns. x is the step, the seconds since the start of the run, the seconds of the clock, or the
// value of another metric.
export type Curve = {
  x: number[];
  // The mean of a bucket, or the value of a point; null for NaN and infinities.
  mean: (number | null)[];
  // The extremes of the buckets; empty if each row is one point.
  min: (number | null)[];
  max: (number | null)[];
  // For each row its first and last step, and how many points it has.
  firstStep: number[];
  lastStep: number[];
  counts: number[];
  // The rows with NaN or infinities.
  bad: number[];
  // The number of points in the window.
  total: number;
  // The number of points without a value of the metric that is x.
  omitted: number;
  bucketed: boolean;
  // The last point of the window, which a bucket hides.
  end: LivePoint | null;
};

// toCurve turns a series of the API into columns. Live points, which the stream sent after the series was read, follow
// after its last step. origin is the start of the run in milliseconds.
export function toCurve(series: Series, live: readonly LivePoint[], x: XKind, origin: number): Curve {
  const curve: Curve = {
    x: [],
    mean: [],
    min: [],
    max: [],
    firstStep: [],
    lastStep: [],
    counts: [],
    bad: [],
    total: series.count ?? series.points.length,
    omitted: series.omitted ?? 0,
    bucketed: series.buckets.length > 0,
    end: series.last,
  };
  for (const [at, b] of series.buckets.entries()) {
    const place =
      x === "step"
        ? at === 0
          ? b.first_step
          : b.last_step
        : x === "metric"
          ? (Number(b.from) + Number(b.to)) / 2
          : seconds((Date.parse(b.from) + Date.parse(b.to)) / 2, x, origin);
    if (b.nan > 0) curve.bad.push(curve.x.length);
    add(curve, place, finite(b.mean), finite(b.min), finite(b.max), b.first_step, b.last_step, b.count);
  }
  for (const point of series.points) addPoint(curve, point, x, origin);
  const last = series.last?.step ?? curve.lastStep.at(-1) ?? -1;
  for (const point of x === "metric" ? [] : live) {
    if (point.step <= last) continue;
    addPoint(curve, point, x, origin);
    curve.total++;
  }
  return curve;
}

function addPoint(curve: Curve, point: LivePoint, x: XKind, origin: number): void {
  const place = x === "step" ? point.step : point.ts ? seconds(Date.parse(point.ts), x, origin) : null;
  if (place === null) return;
  const value = finite(point.value);
  if (value === null) curve.bad.push(curve.x.length);
  add(curve, place, value, value, value, point.step, point.step, 1);
}

function add(
  curve: Curve,
  x: number,
  mean: number | null,
  min: number | null,
  max: number | null,
  firstStep: number,
  lastStep: number,
  count: number,
): void {
  curve.x.push(x);
  curve.mean.push(mean);
  curve.min.push(min);
  curve.max.push(max);
  curve.firstStep.push(firstStep);
  curve.lastStep.push(lastStep);
  curve.counts.push(count);
}

function seconds(ms: number, x: XKind, origin: number): number {
  return (x === "relative" ? ms - origin : ms) / 1000;
}

// firstBad returns the steps between which the first NaN or infinity is; they are equal if it is known exactly.
export function firstBad(curve: Curve): [number, number] | null {
  const row = curve.bad[0];
  if (row === undefined) return null;
  return [curve.firstStep[row] ?? 0, curve.lastStep[row] ?? 0];
}
