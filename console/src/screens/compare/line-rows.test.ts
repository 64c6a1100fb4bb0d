import { expect, it } from "vitest";
import type { Curve } from "@/screens/job/charts/curve";
import { placesOf, valueAt } from "./line-rows";

const curve = (rows: [first: number, last: number, mean: number | null][], bucketed: boolean): Curve => ({
  x: rows.map(([first, last], at) => (at === 0 ? first : last)),
  mean: rows.map(([, , mean]) => mean),
  min: [],
  max: [],
  firstStep: rows.map(([first]) => first),
  lastStep: rows.map(([, last]) => last),
  counts: rows.map(() => 1),
  bad: [],
  total: rows.length,
  omitted: 0,
  bucketed,
  end: null,
});
const points = curve(
  [
    [0, 0, 5],
    [10, 10, null],
    [20, 20, 7],
  ],
  false,
);
const buckets = curve(
  [
    [0, 9, 1],
    [10, 19, 2],
    [30, 39, 3],
  ],
  true,
);

it("lists each place of the lines once", () => {
  const line = (id: string, c: Curve) => ({ id, name: id, color: "red", curve: c });
  expect(placesOf([line("a", points), line("b", buckets)])).toEqual([0, 10, 19, 20, 39]);
  expect(placesOf([])).toEqual([]);
});

it("has the value of a point only where it is, and of a bucket at all of its steps", () => {
  const at = (c: Curve, steps: boolean, ...places: number[]) => places.map((place) => valueAt(c, place, steps));
  expect(at(points, true, 0, 10, 15, 20, 21)).toEqual([5, null, undefined, 7, undefined]);
  expect(at(buckets, true, 0, 5, 9, 10, 19, 20, 30, 39, 40)).toEqual([1, 1, 1, 2, 2, undefined, 3, 3, undefined]);
  expect(at(buckets, false, 19, 10)).toEqual([2, undefined]);
  expect(valueAt(curve([], false), 1, true)).toBeUndefined();
});
