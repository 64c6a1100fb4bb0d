import { expect, it } from "vitest";
import { baseFirst, diffRows, nearest } from "./diff";
import { properties } from "./properties";
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

it("reads at most fifty runs of the address, each once", () => {
  const ids = Array.from({ length: 52 }, (_, at) => `run_abcdef${at}`);
  const search = compareSearch({ runs: ["run_abcdef0", ...ids, "<b>"].join(","), base: "run_abcdef1", tab: "x" });
  expect(search.runs?.split(",")).toEqual(ids.slice(0, 50));
  expect(search.base).toBe("run_abcdef1");
  expect(search.tab).toBeUndefined();
});
