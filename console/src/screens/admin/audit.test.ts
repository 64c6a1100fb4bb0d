import { expect, test } from "vitest";
import { auditSearch, changesOf, sinceOf } from "./audit";

test("only fields that differ are changes", () => {
  expect(changesOf({ a: 1, b: { c: "x", d: [1] } }, { a: 1, b: { c: "y", d: [1, 2] }, e: true })).toEqual([
    { path: "b.c", before: "x", after: "y" },
    { path: "b.d", before: "[1]", after: "[1,2]" },
    { path: "e", before: null, after: "true" },
  ]);
});

test("a created object has no state before", () => {
  expect(changesOf(null, { name: "n", note: null })).toEqual([{ path: "name", before: null, after: "n" }]);
  expect(changesOf(null, null)).toEqual([]);
});

test("a span starts at a full minute", () => {
  const now = Date.parse("2026-11-25T10:20:30.500Z");
  expect(sinceOf("24h", now)).toBe("2026-11-24T10:20:00.000Z");
  expect(sinceOf(undefined, now)).toBeUndefined();
});

test("filters that are not valid are dropped", () => {
  expect(auditSearch({ actor: "mei", span: "2y", action: "x".repeat(200) })).toEqual({
    actor: "mei",
    action: undefined,
    target_kind: undefined,
    target_id: undefined,
    span: undefined,
    row: undefined,
  });
});
