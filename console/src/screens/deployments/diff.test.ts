import { expect, test } from "vitest";
import type { Revision } from "./deployment";
import { changes, options } from "./diff";

function revision(version: number, args: string[], more: Partial<NonNullable<Revision["serving"]>> = {}): Revision {
  return {
    source: { model_id: "mdl_1", version },
    serving: { engine: "llamacpp", args, command: [], requirements: "", pool: "default", gpus: 0, ...more },
  } as Revision;
}

test("options are paired with their values", () => {
  expect(options(["--ctx-size", "4096", "--flash-attn", "--threads=4", "-n", "-1"])).toEqual([
    ["--ctx-size", "4096"],
    ["--flash-attn", ""],
    ["--threads", "4"],
    ["-n", "-1"],
  ]);
  expect(options(["free", "--lora", "a", "--lora", "b"])).toEqual([
    ["args", "free"],
    ["--lora", "a b"],
  ]);
});

test("only what differs is a change", () => {
  expect(changes(revision(1, ["--ctx-size", "2048"]), revision(2, ["--ctx-size", "4096", "--parallel", "2"]))).toEqual([
    { name: "version", before: "1", after: "2" },
    { name: "--ctx-size", before: "2048", after: "4096" },
    { name: "--parallel", before: null, after: "2" },
  ]);
});

test("limits of calls that are set are compared", () => {
  const limits = (seconds: number) => ({ timeouts: { first_byte_s: seconds, idle_s: null } });
  expect(changes(revision(1, [], limits(900)), revision(1, [], limits(1800)))).toEqual([
    { name: "timeouts.first_byte_s", before: "900", after: "1800" },
  ]);
});

test("the order of options makes no difference", () => {
  expect(changes(revision(1, ["--a", "1", "--b", "2"]), revision(1, ["--b", "2", "--a", "1"]))).toEqual([]);
});

test("a removed option is a change, and without a predecessor everything is", () => {
  expect(changes(revision(1, ["--a", "1"]), revision(1, [], { gpus: 1 }))).toEqual([
    { name: "gpus", before: "0", after: "1" },
    { name: "--a", before: "1", after: null },
  ]);
  expect(changes(undefined, revision(3, [])).map((c) => c.name)).toEqual([
    "model",
    "version",
    "engine",
    "pool",
    "gpus",
  ]);
});
