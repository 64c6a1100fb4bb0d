import { describe, expect, it } from "vitest";
import { Batch } from "./batch";
import { Budget } from "./budget";
import { inks } from "./colors";
import { firstBad, type Series, toCurve } from "./curve";
import { toCsv } from "./export";
import { zoomed } from "./keys";
import { LivePoints } from "./live";
import { badX, column, plotData } from "./plot-data";
import { sections } from "./sections";
import { smooth } from "./smooth";
import { axisOf, chartView, countScales, toWindow } from "./view";

const ts = (seconds: number) => new Date(1_000_000 + seconds * 1000).toISOString();
const point = (step: number, value: number | "NaN" = step, attempt = 1) => ({ step, value, ts: ts(step), attempt });
const raw = (...points: ReturnType<typeof point>[]): Series => ({
  key: "k",
  points,
  buckets: [],
  count: points.length,
  first: points[0] ?? null,
  last: points.at(-1) ?? null,
  omitted: 0,
});
const bucket = (first_step: number, last_step: number, nan = 0) => ({
  from: String(first_step),
  to: String(last_step),
  first_step,
  last_step,
  min: 1,
  max: 3,
  mean: 2,
  last: 2,
  count: last_step - first_step + 1,
  nan,
});

describe("curve", () => {
  it("keeps NaN as a gap and finds the first one", () => {
    const curve = toCurve(raw(point(0), point(5, "NaN"), point(9)), [], "step", 0);
    expect(curve.mean).toEqual([0, null, 9]);
    expect(firstBad(curve)).toEqual([5, 5]);
  });

  it("adds live points after the last step only", () => {
    const curve = toCurve(raw(point(1), point(2)), [point(2, 99), point(3)], "step", 0);
    expect(curve.x).toEqual([1, 2, 3]);
    expect(curve.mean[1]).toBe(2);
    expect(curve.total).toBe(3);
  });

  it("measures relative time from the start of the run", () => {
    expect(toCurve(raw(point(7)), [], "relative", 1_000_000).x).toEqual([7]);
  });

  it("draws buckets over another metric at the middle of its values, without live points", () => {
    const series: Series = { ...raw(), count: 20, buckets: [{ ...bucket(0, 9), from: "-0.5", to: "0.25" }] };
    const curve = toCurve(series, [point(99)], "metric", 0);
    expect(curve.x).toEqual([-0.125]);
    expect(curve.lastStep).toEqual([9]);
  });

  it("draws the first bucket at its first step and the others at their last, and knows NaN only by range", () => {
    const series: Series = { ...raw(), count: 20, buckets: [bucket(0, 9), bucket(10, 19, 2)], last: point(19) };
    const curve = toCurve(series, [], "step", 0);
    expect(curve.x).toEqual([0, 19]);
    expect(curve.bucketed).toBe(true);
    expect(firstBad(curve)).toEqual([10, 19]);
  });
});

describe("plotData", () => {
  const line = (id: string, series: Series) => ({ id, name: id, color: "#000", curve: toCurve(series, [], "step", 0) });

  it("drops what a logarithm cannot show", () => {
    const lines = [line("a", raw(point(0, 5), point(1, -1), point(2, 4)))];
    const data = plotData(lines, { smoothing: 0, logX: true, logY: true });
    expect(data[0]).toEqual([1, 2]);
    expect(data[column.raw]).toEqual([null, 4]);
  });

  it("joins runs with other steps", () => {
    const lines = [line("a", raw(point(1), point(3))), line("b", raw(point(2)))];
    const data = plotData(lines, { smoothing: 0, logX: false, logY: false });
    expect(data[0]).toEqual([1, 2, 3]);
    expect(data).toHaveLength(9);
    expect(data[4 + column.raw]).toEqual([undefined, 2, undefined]);
  });

  it("marks NaN on the axis", () => {
    expect(badX([line("a", raw(point(0, "NaN"), point(4, "NaN")))], true)).toEqual([4]);
  });
});

it("smooths without a bias at the start, over gaps", () => {
  expect(smooth([4, null, 4], 0.9)).toEqual([4, null, 4]);
  const [, second] = smooth([0, 1], 0.5);
  expect(second).toBeCloseTo(2 / 3);
});

it("mounts at most the allowed charts, and the next one when one leaves", () => {
  const budget = new Budget(2);
  const on = new Map<string, boolean>();
  for (const id of ["a", "b", "c"]) budget.enter(id, (is) => on.set(id, is));
  expect(on.get("c")).toBeUndefined();
  budget.leave("a");
  expect([on.get("a"), on.get("b"), on.get("c")]).toEqual([false, true, true]);
  budget.leave("unknown");
});

it("gives colours that do not depend on the order, and dashes after twelve runs", () => {
  const ids = Array.from({ length: 13 }, (_, at) => `run_${at}`);
  const all = inks(ids, "light");
  expect(inks(ids.toReversed(), "light")).toEqual(all);
  expect(new Set([...all.values()].map((ink) => ink.color + String(ink.dash))).size).toBe(13);
  expect([...all.values()].filter((ink) => ink.dash)).toHaveLength(1);
});

it("groups keys by prefix and searches all words", () => {
  expect(sections(["train/loss", "train/lr", "lr"], "").map((s) => s.name)).toEqual(["train", ""]);
  expect(sections(["train/loss", "train/lr"], "LOSS train")).toEqual([{ name: "train", keys: ["train/loss"] }]);
});

it("reads the view of the address and drops what is wrong", () => {
  expect(chartView({ x: "time", logx: true, smooth: 2, from: 5, to: 1 })).toEqual({ x: "time" });
  expect(toWindow({ from: 1.2, to: 8.7 }, 0)).toEqual({ from: "1", to: "9" });
  expect(toWindow({ x: "relative", from: 1, to: 2 }, 1_000_000).from).toBe(ts(1));
  expect(toWindow({}, 0)).toEqual({});
  expect(chartView({ x: "metric" })).toEqual({});
  expect(chartView({ x: "step", over: "lr" })).toEqual({});
  expect(countScales(chartView({ x: "step", smooth: 0, key: "loss", from: 1, to: 2 }))).toBe(0);
  expect(countScales(chartView({ x: "relative", smooth: 0.5, logy: true }))).toBe(3);
  const over = chartView({ x: "metric", over: "lr", from: 0.25, to: 1 });
  expect(toWindow(over, 0)).toEqual({ from: "0.25", to: "1" });
  expect([over, { x: "relative" as const }, {}].map(axisOf)).toEqual(["lr", "time", "step"]);
});

it("shows live points together, with those of a new attempt in place of the old ones", () => {
  let run = () => {};
  const live = new LivePoints((task) => {
    run = task;
  });
  let told = 0;
  live.subscribe("k", () => told++);
  live.add([1, 2, 3].map((step) => ({ key: "k", ...point(step) })));
  live.add([{ key: "k", ...point(2, 20) }]);
  expect(live.get("k")).toHaveLength(0);
  run();
  expect(told).toBe(1);
  expect(live.get("k").map((p) => p.value)).toEqual([1, 20]);
});

it("reads several charts with one request, within the limit of buckets", async () => {
  const asked: string[][] = [];
  const batch = new Batch(
    async (_, keys) => {
      asked.push(keys);
      return keys.filter((k) => k !== "b").map((key) => ({ ...raw(point(1)), key }));
    },
    (task) => queueMicrotask(task),
  );
  const all = await Promise.all(["a", "b", "c"].map((key) => batch.load("run", key, { points: 12_000, x: "step" })));
  expect(asked).toEqual([["a", "b"], ["c"]]);
  expect(all.map((s) => [s.key, s.points.length])).toEqual([
    ["a", 1],
    ["b", 0],
    ["c", 1],
  ]);
});

it("writes CSV that a spreadsheet does not run", () => {
  const curve = toCurve(raw(point(1, 0.5)), [], "step", 0);
  expect(toCsv([{ id: "a", name: '=1+1,"x"', color: "", curve }], "step").split("\r\n")[1]).toBe(
    `"'=1+1,""x""",1,1,1,1,0.5,0.5,0.5`,
  );
});

it("zooms around the cursor", () => {
  expect(zoomed(0, 100, 20, 0.5)).toEqual([10, 60]);
  expect(zoomed(...zoomed(0, 100, 20, 0.5), 20, 2)).toEqual([0, 100]);
});
