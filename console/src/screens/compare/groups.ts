import type { Schemas } from "@/api/client";
import { type Ink, inks } from "@/screens/job/charts/colors";
import type { Curve } from "@/screens/job/charts/curve";
import { finite } from "@/screens/job/charts/number";
import { shown } from "@/screens/job/overview/Hparams";
import { diffRows } from "./diff";

// A group of runs that are drawn as one mean with a band.
export type Group<T> = { name: string; runs: T[] };
type Properties = Record<string, unknown>;

// groupsOf puts the runs together that have the same value of a property, in the order of the runs. Without a property, all
// runs are one group, whose name is all.
export function groupsOf<T>(runs: readonly T[], by: string, all: string, of: (run: T) => Properties): Group<T>[] {
  if (by === "") return runs.length > 0 ? [{ name: all, runs: [...runs] }] : [];
  const groups = new Map<string, T[]>();
  for (const run of runs) {
    const value = of(run)[by];
    const name = `${by} = ${value === undefined ? "–" : shown(value)}`;
    groups.set(name, [...(groups.get(name) ?? []), run]);
  }
  return [...groups].map(([name, members]) => ({ name, runs: members }));
}

// groupInks gives the line of each group a colour.
export function groupInks(groups: readonly Pick<Group<unknown>, "name">[], theme: "light" | "dark"): Map<string, Ink> {
  return inks(
    groups.map((group) => group.name),
    theme,
  );
}

// inGroupColors returns the runs, in their order, with the colours of the lines of their groups.
export function inGroupColors<T extends { ink: Ink }>(
  runs: readonly T[],
  groups: readonly Group<T>[],
  theme: "light" | "dark",
): T[] {
  const colors = groupInks(groups, theme);
  const ink = new Map(
    groups.flatMap(({ name, runs: members }) => members.map((run) => [run, colors.get(name)] as const)),
  );
  return runs.map((run) => ({ ...run, ink: ink.get(run) ?? run.ink }));
}

const mostChoices = 100;

// choicesOf returns the properties by which runs can be grouped: those that differ.
export function choicesOf(objects: readonly Properties[]): string[] {
  return diffRows(objects, false)
    .map((row) => row.name)
    .slice(0, mostChoices);
}

// bandCurve turns a band of the API into a curve: the mean of the runs between the lowest and the highest value of any run. total
// is the number of their points.
export function bandCurve(band: readonly Schemas["MetricBand"][], x: "step" | "time", total: number): Curve {
  const place = (text: string) => (x === "step" ? Number(text) : Date.parse(text) / 1000);
  const at = band.map((bucket, row) => place(row === 0 ? bucket.from : bucket.to));
  const step = (text: string, fallback: number) => (x === "step" ? Number(text) : fallback);
  const mean = band.map((bucket) => finite(bucket.mean));
  return {
    x: at,
    mean,
    min: band.map((bucket) => finite(bucket.min)),
    max: band.map((bucket) => finite(bucket.max)),
    firstStep: band.map((bucket, row) => step(bucket.from, row)),
    lastStep: band.map((bucket, row) => step(bucket.to, row)),
    counts: band.map((bucket) => bucket.runs),
    bad: mean.flatMap((value, row) => (value === null ? [row] : [])),
    total,
    omitted: 0,
    bucketed: true,
    end: null,
  };
}
