import { expect, test } from "vitest";
import type { LineageEdge, LineageNode } from "./api";
import { box, draw, pathOf } from "./layout";

const node = (key: string, distance: number, more: Partial<LineageNode> = {}): LineageNode => ({
  key,
  kind: "run",
  visible: true,
  distance,
  id: `run_${key}`,
  name: key,
  version: null,
  project: "p",
  state: "running",
  digest: null,
  job_id: null,
  made_at: null,
  more: false,
  ...more,
});
const edge = (source: string, target: string): LineageEdge => ({ source, target, relation: "derived", detail: null });

test("columns follow the distance, inputs on the left", () => {
  const { nodes, lines, width, height } = draw(
    [node("root", 0), node("in", -1), node("a", 1), node("b", 1)],
    [edge("in", "root"), edge("root", "a"), edge("root", "b")],
  );
  expect(nodes.map((p) => [p.node.key, p.x / (box.width + box.across)])).toEqual([
    ["in", 0],
    ["root", 1],
    ["a", 2],
    ["b", 2],
  ]);
  expect(lines).toHaveLength(3);
  expect(width).toBe(3 * box.width + 2 * box.across);
  expect(height).toBe(2 * box.height + box.down);
  for (const { y } of nodes) expect(y).toBeGreaterThanOrEqual(0);
});

test("a node stands near its neighbors", () => {
  const { nodes } = draw(
    [node("root", 0), node("a", 1), node("b", 1), node("of-b", 2), node("of-a", 2)],
    [edge("root", "a"), edge("root", "b"), edge("b", "of-b"), edge("a", "of-a")],
  );
  const y = (key: string) => nodes.find((p) => p.node.key === key)?.y ?? -1;
  expect(y("of-a")).toBeLessThan(y("of-b"));
});

test("a line to a node that is missing is not drawn", () => {
  expect(draw([node("root", 0)], [edge("root", "gone")]).lines).toEqual([]);
});

test("addresses of nodes", () => {
  expect(pathOf(node("x", 0))).toBe("/runs/run_x/lineage");
  expect(pathOf(node("x", 0, { kind: "dataset_version", id: "ds_1", version: "a/b" }))).toBe(
    "/datasets/ds_1/a%2Fb?tab=lineage",
  );
  expect(pathOf(node("x", 0, { kind: "model_version", id: "mdl_1", version: "3" }))).toBe(
    "/models/mdl_1/3?tab=lineage",
  );
  expect(pathOf(node("x", 0, { kind: "revision", id: "dep_1", version: "2" }))).toBe(
    "/deployments/dep_1?tab=lineage&revision=2",
  );
  expect(pathOf(node("x", 0, { visible: false, id: null }))).toBeNull();
});
