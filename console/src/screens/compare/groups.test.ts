import { expect, test } from "vitest";
import { bandCurve, choicesOf, groupInks, groupsOf, inGroupColors } from "./groups";
import { compareSearch } from "./search";

const runs: { id: string; lr?: number; seed: number }[] = [
  { id: "a", lr: 0.1, seed: 1 },
  { id: "b", lr: 0.2, seed: 1 },
  { id: "c", lr: 0.1, seed: 1 },
  { id: "d", seed: 1 },
];
const of = ({ id: _, ...rest }: (typeof runs)[number]) => rest;

test("runs with the same value are one group, and those without it too", () => {
  const groups = groupsOf(runs, "lr", "all", of).map((g) => [g.name, g.runs.map((r) => r.id).join("")]);
  expect(groups).toEqual([
    ["lr = 0.1", "ac"],
    ["lr = 0.2", "b"],
    ["lr = –", "d"],
  ]);
  expect(groupsOf(runs, "", "all", of)).toEqual([{ name: "all", runs }]);
  expect(groupsOf([], "", "all", of)).toEqual([]);
  expect(choicesOf(runs.map(of))).toEqual(["lr"]);
});

test("a band keeps the extremes, and its first and last place", () => {
  const band = [
    { from: "0", to: "9", runs: 2, mean: 2, min: 1, max: 3 },
    { from: "10", to: "19", runs: 1, mean: "NaN" as const, min: "NaN" as const, max: "NaN" as const },
  ];
  const curve = bandCurve(band, "step", 40);
  expect(curve).toMatchObject({ x: [0, 19], mean: [2, null], min: [1, null], max: [3, null], bad: [1], total: 40 });
  const times = [{ from: "1970-01-01T00:00:10Z", to: "1970-01-01T00:00:20Z", runs: 1, mean: 1, min: 1, max: 1 }];
  expect(bandCurve(times, "time", 1).x).toEqual([10]);
});

test("the address keeps the group", () => {
  expect(compareSearch({ group: "" }).group).toBe("");
  expect(compareSearch({ group: "optim.lr" }).group).toBe("optim.lr");
  expect(compareSearch({}).group).toBeUndefined();
});

test("the runs of a group have the colour of its line", () => {
  const own = runs.map((run) => ({ ...run, ink: { color: run.id } }));
  const groups = groupsOf(own, "lr", "all", ({ lr }) => ({ lr }));
  const lines = groupInks(groups, "light");
  const named = inGroupColors(own, groups, "light");
  expect(named.map((run) => run.id)).toEqual(["a", "b", "c", "d"]);
  expect(named.map((run) => run.ink)).toEqual(
    ["lr = 0.1", "lr = 0.2", "lr = 0.1", "lr = –"].map((name) => lines.get(name)),
  );
  expect(new Set(named.map((run) => run.ink.color)).size).toBe(3);
});
