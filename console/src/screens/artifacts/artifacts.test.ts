// @vitest-environment node
import { expect, test } from "vitest";
import type { Artifact } from "./api";
import { canRegister, fileOf, freedBy, isStored, nameFor } from "./artifact";

const artifact = (part: Partial<Artifact>): Artifact => ({
  id: "art_1",
  run_id: "run_1",
  attempt: 1,
  kind: "hf_export",
  format: "safetensors",
  step: 5,
  path: "blob://runs/run_1/1/hf_export/abc/__.safetensors",
  name: "モデル/重み.safetensors",
  size_bytes: 5,
  sha256: "2cf2",
  created_at: "2026-11-21T03:00:00+00:00",
  removed_at: null,
  ...part,
});

test("only weights that the platform has can become a model", () => {
  expect(canRegister(artifact({}))).toBe(true);
  expect(canRegister(artifact({ format: "gguf", kind: "checkpoint" }))).toBe(true);
  expect(canRegister(artifact({ kind: "eval_report" }))).toBe(false);
  expect(canRegister(artifact({ format: "json" }))).toBe(false);
  expect(canRegister(artifact({ path: "/data/out/model.safetensors", sha256: null }))).toBe(false);
});

test("what the platform has not, or may not send, has no download", () => {
  expect(isStored(artifact({}))).toBe(true);
  expect(isStored(artifact({ sha256: null }))).toBe(false);
});

test("a removed checkpoint has no file, and its bytes are counted", () => {
  const removed = artifact({ kind: "checkpoint", removed_at: "2026-11-21T04:00:00+00:00" });
  expect(isStored(removed)).toBe(false);
  expect(canRegister(removed)).toBe(false);
  expect(freedBy([removed, artifact({}), removed])).toEqual({ count: 2, bytes: 10 });
});

test("the name of a file and of a model", () => {
  expect(fileOf(artifact({}))).toBe("モデル/重み.safetensors");
  expect(fileOf(artifact({ path: "checkpoint-5", name: "checkpoint-5" }))).toBe("checkpoint-5");
  expect(fileOf(artifact({ path: "/data/out/m.gguf", name: "/data/out/m.gguf" }))).toBe("m.gguf");
  expect(nameFor("  GRPO run #3 (März)! ")).toBe("grpo-run-3-m-rz");
});
