import { expect, test } from "vitest";
import { differences, flatten } from "./flatten";

test("values have paths, and what is empty has none", () => {
  expect(flatten({ a: { b: 1, c: "" }, d: [], e: ["x", "y"], f: null, g: false })).toEqual([
    ["a.b", "1"],
    ["e", "x, y"],
    ["g", "false"],
  ]);
});

test("objects in a list are named by their key", () => {
  expect(flatten({ criteria: [{ key: "tone", weight: 1 }] })).toEqual([["criteria[tone].weight", "1"]]);
  expect(flatten({ points: [{ x: 1 }, { x: 2 }] })).toEqual([
    ["points[0].x", "1"],
    ["points[1].x", "2"],
  ]);
  // Two with the same key would hide each other.
  expect(
    flatten([
      { key: "a", v: 1 },
      { key: "a", v: 2 },
    ]),
  ).toHaveLength(4);
});

test("a removed element is one difference", () => {
  const criterion = (key: string, weight: number) => ({ key, weight });
  const before = { criteria: [criterion("a", 1), criterion("b", 2), criterion("c", 3)] };
  const after = { criteria: [criterion("b", 2), criterion("c", 4)] };
  expect(differences(before, after)).toEqual([
    { path: "criteria[c].weight", before: "3", after: "4" },
    { path: "criteria[a].weight", before: "1", after: null },
  ]);
  expect(differences(null, { a: 1 })).toEqual([{ path: "a", before: null, after: "1" }]);
  expect(differences(before, structuredClone(before))).toEqual([]);
});
