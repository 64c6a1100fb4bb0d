import type { Line, SharedSeries } from "./api";

export type Range = { minX: number; maxX: number; minY: number; maxY: number };
type Point = SharedSeries["points"][number];

const finite = (point: Point): point is Point & { value: number } => typeof point.value === "number";

// rangeOf returns the range of the finite values. It returns null if no value is finite.
export function rangeOf(lines: readonly Line[]): Range | null {
  const range = { minX: Infinity, maxX: -Infinity, minY: Infinity, maxY: -Infinity };
  for (const { series } of lines) {
    for (const point of series.points.filter(finite)) {
      range.minX = Math.min(range.minX, point.step);
      range.maxX = Math.max(range.maxX, point.step);
      range.minY = Math.min(range.minY, point.value);
      range.maxY = Math.max(range.maxY, point.value);
    }
  }
  return range.minX === Infinity ? null : range;
}

// pathOf draws a series as an SVG path. A value that is not finite interrupts the line.
export function pathOf(points: readonly Point[], range: Range, width: number, height: number): string {
  const x = (step: number) => ((step - range.minX) / (range.maxX - range.minX || 1)) * width;
  const y = (value: number) => height - ((value - range.minY) / (range.maxY - range.minY || 1)) * height;
  let pen = "M";
  let path = "";
  for (const point of points) {
    if (!finite(point)) {
      pen = "M";
      continue;
    }
    path += `${pen}${x(point.step).toFixed(1)} ${y(point.value).toFixed(1)}`;
    pen = "L";
  }
  return path;
}

export function notFinite(lines: readonly Line[]): number {
  return lines.reduce((sum, { series }) => sum + series.points.filter((p) => !finite(p)).length, 0);
}

const colors = ["var(--accent)", "var(--info)", "var(--warn)", "var(--bad)", "var(--soft)"];
const dashes = ["", "5 3", "2 2", "8 3 2 3"];

// strokeOf gives each of up to twenty runs a colour and a dash of its own.
export function strokeOf(run: number): { stroke: string; strokeDasharray: string } {
  return {
    stroke: colors[run % colors.length] ?? "var(--ink)",
    strokeDasharray: dashes[Math.floor(run / colors.length) % dashes.length] ?? "",
  };
}
