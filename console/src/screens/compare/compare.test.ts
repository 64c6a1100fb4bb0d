import { expect, it } from "vitest";
import type { Line } from "@/screens/job/charts/plot-data";
import { baseFirst, diffRows, nearest, pairOf } from "./diff";
import { properties } from "./properties";
import { readings } from "./readings";
import { alike, commonSteps, type Prompt, stepChoices } from "./samples";
import { compareSearch } from "./search";
import type { Compared } from "./use-compared";

it("shows only the parameters that differ", () => {
  const runs = [
    { lr: 1, data: { a: 1, b: [2] }, seed: 3 },
    { lr: 2, data: { b: [2], a: 1 } },
  ];
  expect(diffRows(runs, false).map((row) => [row.name, row.values])).toEqual([
    ["lr", [1, 2]],
    ["seed", [3, undefined]],
  ]);
  expect(diffRows(runs, true)).toHaveLength(3);
});

it("names no recipe of a run without a job", () => {
  const of = (recipe_lock: unknown) => {
    const run = { recipe_lock, bindings: {}, labels: {}, owner: "ann", project: "default" };
    return properties({ run, params: {} } as unknown as Compared).recipe;
  };
  expect(of({})).toBeUndefined();
  expect(of({ name: "demo/chat-tiny", version: "1.2.3" })).toBe("demo/chat-tiny 1.2.3");
});

it("moves the baseline to the front", () => {
  const runs = [{ id: "a" }, { id: "b" }, { id: "c" }];
  expect(baseFirst(runs, "b").map((r) => r.id)).toEqual(["b", "a", "c"]);
  expect(baseFirst(runs, "x").map((r) => r.id)).toEqual(["a", "b", "c"]);
  expect(baseFirst([], "x")).toEqual([]);
});

it("finds the point that is nearest to the cursor", () => {
  expect([-5, 1, 14, 16, 99].map((x) => nearest([0, 10, 20], x))).toEqual([0, 0, 1, 2, 2]);
  expect(nearest([], 1)).toBe(-1);
});

it("reads no value of a run that has ended before the cursor or begins after it", () => {
  const line = (id: string, x: number[], mean: (number | null)[], counts = x.map(() => 1)) =>
    ({ id, curve: { x, mean, counts, bucketed: counts.some((count) => count > 1) } }) as unknown as Line;
  const lines = [
    line("ended", [0, 1, 2], [9, 9, 9]),
    line("late", [70, 80], [8, 8]),
    line("bad", [0, 50], [1, null]),
    line("buckets", [0, 40, 60], [3, 4, 5], [20, 20, 20]),
    line("one", [50], [6]),
  ];
  const at = (place: number) => readings(lines, place).map(({ line: { id }, value, mean }) => [id, value, mean]);
  expect(at(50)).toEqual([
    ["one", 6, false],
    ["buckets", 4, true],
    ["bad", null, false],
    ["ended", undefined, false],
    ["late", undefined, false],
  ]);
  // The last point stands for as much after it as half of the way to the point before it.
  expect(at(2.4)[0]).toEqual(["ended", 9, false]);
  expect(at(2.6).at(-3)).toEqual(["ended", undefined, false]);
});

it("reads at most fifty runs of the address, each once", () => {
  const ids = Array.from({ length: 52 }, (_, at) => `run_abcdef${at}`);
  const search = compareSearch({ runs: ["run_abcdef0", ...ids, "<b>"].join(","), base: "run_abcdef1", tab: "x" });
  expect(search.runs?.split(",")).toEqual(ids.slice(0, 50));
  expect(search.base).toBe("run_abcdef1");
  expect(search.tab).toBeUndefined();
});

it("compares the baseline with the chosen run, by default with the next one", () => {
  const runs = [{ id: "a" }, { id: "b" }, { id: "c" }];
  const ids = (against?: string) => pairOf(runs, against)?.map((run) => run.id);
  expect([ids(), ids("c"), ids("a"), ids("x")]).toEqual([
    ["a", "b"],
    ["a", "c"],
    ["a", "b"],
    ["a", "b"],
  ]);
  expect(pairOf(runs.slice(0, 1), undefined)).toBeNull();
});

it("compares samples at steps that both runs have", () => {
  const rounds = (...steps: number[]) => steps.map((step) => ({ step }));
  expect(commonSteps(rounds(30, 10, 20), rounds(20, 30, 30, 40))).toEqual([20, 30]);
  expect(commonSteps([], rounds(1))).toEqual([]);
  const many = Array.from({ length: 150 }, (_, at) => at);
  expect(stepChoices(many, 149).slice(0, 2)).toEqual([149, 148]);
  expect(stepChoices(many, 3)).toHaveLength(101);
});

it("finds the prompts whose responses differ", () => {
  const prompt = (...responses: [text: string | null, reward: number | null][]): Prompt => ({
    prompt: "1+2?",
    truncated: false,
    samples: responses.map(([assistant, reward]) => ({
      run_id: "run_a",
      step: 1,
      assistant,
      reward,
      truncated: false,
    })),
  });
  expect(alike(prompt(["3", 1], ["3", 1]))).toBe(true);
  expect(alike(prompt(["3", 1], ["4", 1]))).toBe(false);
  expect(alike(prompt(["3", 1], ["3", 0]))).toBe(false);
});
