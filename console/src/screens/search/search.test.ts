import { describe, expect, it } from "vitest";
import { byKind, isKind, pathOf, type Result } from "./found";

function result(kind: string, id: string, project: string | null = null): Result {
  return { kind, id, project, title: id, snippet: null, score: 1 };
}

describe("pathOf", () => {
  it("returns the screen of each kind", () => {
    const rest = "01kab3c4d5e6f7g8h9j0kmnpqr";
    expect(pathOf(result("run", `run_${rest}`))).toBe(`/runs/run_${rest}`);
    expect(pathOf(result("dataset", `ds_${rest}`))).toBe(`/datasets/ds_${rest}/latest`);
    expect(pathOf(result("project", `prj_${rest}`, "vision"))).toBe("/projects/vision");
    expect(pathOf(result("unknown", "x"))).toBeNull();
  });
});

describe("byKind", () => {
  it("keeps the order of the best results", () => {
    const groups = byKind([result("run", "a"), result("model", "b"), result("run", "c")]);
    expect(groups.map((g) => [g.kind, g.results.map((r) => r.id)])).toEqual([
      ["run", ["a", "c"]],
      ["model", ["b"]],
    ]);
  });
});

describe("isKind", () => {
  it("knows the kinds of the API", () => {
    expect([isKind("run"), isKind("nothing")]).toEqual([true, false]);
  });
});
