import { expect, test } from "vitest";
import type { Node } from "./api";
import { cellAt, kindOf, layout, move } from "./layout";

const node = (gpus: number, free: number, state = "ready") => ({ gpus, gpus_free: free, state }) as Node;

test("each GPU has a cell and the held ones come first", () => {
  const { cells } = layout([node(4, 1), node(0, 0)], 500);
  expect(cells.map((c) => c.kind)).toEqual(["held", "held", "held", "free", "cpu"]);
});

test("the state of a node decides what its cells show", () => {
  expect(kindOf(node(2, 2, "lost"), 0)).toBe("lost");
  expect(kindOf(node(2, 1, "cordoned"), 0)).toBe("held");
  expect(kindOf(node(2, 1, "cordoned"), 1)).toBe("closed");
});

test("blocks wrap at the width of the map and cells do not overlap", () => {
  const { cells, height } = layout(
    Array.from({ length: 125 }, () => node(8, 4)),
    600,
  );
  expect(cells).toHaveLength(1000);
  expect(new Set(cells.map((c) => `${c.x}:${c.y}`)).size).toBe(1000);
  expect(Math.max(...cells.map((c) => c.x))).toBeLessThan(600);
  expect(height).toBeGreaterThan(14);
});

test("arrow keys reach each cell", () => {
  const { cells } = layout([node(16, 0), node(8, 0)], 150);
  expect(move(cells, 0, "ArrowRight")).toBe(1);
  expect(move(cells, 0, "ArrowLeft")).toBe(0);
  expect(move(cells, 3, "ArrowDown")).toBe(11);
  expect(move(cells, 11, "ArrowDown")).toBe(19);
  expect(move(cells, 19, "ArrowUp")).toBe(11);
  expect(move(cells, 5, "End")).toBe(23);
  expect(move([], 0, "ArrowDown")).toBe(-1);
});

test("a point belongs to the cell below it", () => {
  const { cells } = layout([node(8, 8)], 400);
  expect(cellAt(cells, 1, 1)).toBe(0);
  expect(cellAt(cells, 20, 5)).toBe(1);
  expect(cellAt(cells, 399, 5)).toBe(-1);
});
