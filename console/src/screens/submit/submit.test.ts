import { describe, expect, it } from "vitest";
import { parse, set, valueAt } from "./document";
import { groupsOf, mistakeOf, numberOf, type Param, paramsOf } from "./params";
import { relocked } from "./relocked";
import { type Lock, newest, type Recipe, startOf } from "./start";

const lock = { name: "demo/chat-tiny", version: "1.1.2", digest: "sha256:a" } as Lock;
const recipe = (name: string, version: string, state = "active") =>
  ({ name, version, state, resources_hint: { cpu: 1, gpus: 0, memory_gb: 2 } }) as Recipe;

describe("the YAML of a submission", () => {
  const text = "# my run\nname: a # short\nhparams:\nresources:\n  pools:\n    - pool: default\n";

  it("keeps comments and order when the form changes a value", () => {
    expect(set(text, ["name"], "b")).toBe(text.replace("name: a #", "name: b #"));
  });

  it("sets values inside of what is empty or missing", () => {
    const next = set(set(text, ["hparams", "optim.lr"], 0.1), ["limits", "running_s"], 60);
    expect(parse(next).spec).toEqual({
      name: "a",
      hparams: { "optim.lr": 0.1 },
      resources: { pools: [{ pool: "default" }] },
      limits: { running_s: 60 },
    });
  });

  it("changes a part of a list", () => {
    const next = parse(set(text, ["resources", "pools", 0, "nodes"], 2)).spec;
    expect(valueAt(next, ["resources", "pools", 0])).toEqual({ pool: "default", nodes: 2 });
  });

  it("removes a value with the maps that become empty, and no list", () => {
    const next = set(set(text, ["limits", "running_s"], 60), ["limits", "running_s"], undefined);
    expect(parse(next).spec).not.toHaveProperty("limits");
    const pool = parse(set(text, ["resources", "pools", 0, "pool"], undefined)).spec;
    expect(valueAt(pool, ["resources", "pools"])).toHaveLength(1);
  });

  it("names the line of a mistake, and leaves such a text alone", () => {
    const wrong = "name: a\nhparams: [1\n";
    expect(parse(wrong).problem?.line).toBeGreaterThan(1);
    expect(set(wrong, ["name"], "b")).toBe(wrong);
    expect(parse("- a").problem).not.toBeNull();
    expect(parse("").problem).not.toBeNull();
  });

  it("refuses a text that would grow without end", () => {
    const levels = ["a: &a [x, x, x, x, x, x, x, x, x]"];
    for (const [at, name] of [..."bcdefg"].entries())
      levels.push(`${name}: &${name} [${`*${"abcdef"[at]}, `.repeat(9)}]`);
    expect(parse(levels.join("\n")).spec).toBeNull();
    expect(parse(`a: ${"x".repeat(1_000_001)}`).problem).not.toBeNull();
  });

  it("begins with the sizes that the recipe names", () => {
    const { spec } = parse(startOf(recipe("demo/chat-tiny", "1.1.2"), lock, undefined, "gpu"));
    expect(spec).toEqual({
      name: "chat-tiny",
      project: "default",
      resources: { pools: [{ pool: "gpu", cpu: 1, memory_gb: 2 }] },
      recipe: { name: "demo/chat-tiny", version: "1.1.2", lock },
    });
  });
});

describe("the catalog", () => {
  it("shows the newest usable version of each recipe, one's own command last", () => {
    const all = [
      recipe("custom/custom", "1.0.1"),
      recipe("a/b", "1.9.0"),
      recipe("a/b", "1.10.0"),
      recipe("a/b", "2.0.0", "withdrawn"),
    ];
    expect(newest(all).map((r) => `${r.name}@${r.version}`)).toEqual(["a/b@1.10.0", "custom/custom@1.0.1"]);
  });

  it("shows how a lock differs from the catalog's", () => {
    const now = { recipe: recipe("demo/chat-tiny", "1.2.0"), lock: { ...lock, version: "1.2.0", digest: "sha256:b" } };
    const { rows, recipe: next } = relocked({ name: "demo/chat-tiny", version: "1.1.2", lock }, now);
    expect(rows.map((r) => r.path)).toEqual(["version", "lock.version", "lock.digest"]);
    expect(relocked(next, now).rows).toEqual([]);
  });
});

describe("hyperparameters", () => {
  const none: Param = { name: "", type: "", description: "", fallback: undefined, choices: [] };
  const [layers = none, lr = none] = paramsOf({
    properties: {
      "model.layers": { type: "integer", minimum: 1, maximum: 8, default: 3 },
      "optim.lr": { type: "number", minimum: 0 },
    },
  });

  it("come from the recipe's schema", () => {
    expect(layers).toMatchObject({ name: "model.layers", type: "integer", min: 1, max: 8, fallback: 3 });
    expect(groupsOf([layers, lr]).map(([name]) => name)).toEqual(["model", "optim"]);
    expect(paramsOf({ additionalProperties: true })).toEqual([]);
    expect(paramsOf(null)).toEqual([]);
  });

  it("are checked before they are sent", () => {
    expect(mistakeOf(layers, 3)).toBeNull();
    expect(mistakeOf(layers, undefined)).toBeNull();
    expect(mistakeOf(layers, 9)).toEqual({ key: "tooLarge", limit: 8 });
    expect(mistakeOf(layers, 0)).toEqual({ key: "tooSmall", limit: 1 });
    expect(mistakeOf(layers, 1.5)).toEqual({ key: "notInteger" });
    expect(mistakeOf(lr, "1e")).toEqual({ key: "notNumber" });
  });

  it("stay as they are typed while they are no number", () => {
    expect(numberOf("")).toBeUndefined();
    expect(numberOf(" 1e-3 ")).toBe(0.001);
    expect(numberOf("0.")).toBe(0);
    expect(numberOf("1e-")).toBe("1e-");
  });
});
