import uPlot from "uplot";
import type { Curve } from "./curve";
import { smooth } from "./smooth";

// One line of a chart. name and color belong to its run.
export type Line = { id: string; name: string; color: string; dash?: number[]; curve: Curve };
export type Scaling = { smoothing: number; logX: boolean; logY: boolean };

// Each line has four columns: the extremes, the raw values and the smoothed ones. A column that is not drawn is empty.
export const columnsPerLine = 4;
export const column = { max: 1, min: 2, raw: 3, smooth: 4 } as const;

// plotData returns the columns that uPlot draws. Lines with other x values are joined, with gaps where a line has none.
export function plotData(lines: readonly Line[], { smoothing, logX, logY }: Scaling): uPlot.AlignedData {
  const tables = lines.map(({ curve }): uPlot.AlignedData => {
    const keep = logX ? curve.x.map((x) => x > 0) : null;
    const pick = <T>(values: readonly T[]): T[] => (keep ? values.filter((_, at) => keep[at]) : [...values]);
    const y = (values: readonly (number | null)[]) =>
      pick(logY ? values.map((v) => (v !== null && v > 0 ? v : null)) : values);
    const empty = () => curve.x.filter((_, at) => keep?.[at] ?? true).map(() => null);
    return [
      pick(curve.x),
      curve.bucketed ? y(curve.max) : empty(),
      curve.bucketed ? y(curve.min) : empty(),
      y(curve.mean),
      smoothing > 0 ? y(smooth(curve.mean, smoothing)) : empty(),
    ];
  });
  const [first] = tables;
  if (first === undefined) return [[]];
  return tables.length === 1 ? first : uPlot.join(tables);
}

// badX returns where NaN and infinities are.
export function badX(lines: readonly Line[], logX: boolean): number[] {
  return lines.flatMap(({ curve }) => curve.bad.flatMap((row) => curve.x[row] ?? [])).filter((x) => !logX || x > 0);
}
