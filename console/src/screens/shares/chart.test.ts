import { expect, test } from "vitest";
import { group, type Line, type SharedSeries, stateOf, targetsOf } from "./api";
import { notFinite, pathOf, rangeOf, strokeOf } from "./chart";

const series = (key: string, values: (number | "NaN" | "Infinity")[]): SharedSeries =>
  ({ key, points: values.map((value, step) => ({ step, value, ts: null })) }) as SharedSeries;
const line = (values: (number | "NaN" | "Infinity")[]): Line => ({ run: 0, series: series("k", values) });

test("values that are not finite interrupt a line and do not stretch the range", () => {
  const lines = [line([0, "NaN", 10, "Infinity", 5])];
  const range = rangeOf(lines);
  expect(range).toEqual({ minX: 0, maxX: 4, minY: 0, maxY: 10 });
  expect(range && pathOf(lines[0]?.series.points ?? [], range, 100, 10)).toBe("M0.0 10.0M50.0 0.0M100.0 5.0");
  expect(notFinite(lines)).toBe(2);
  expect(rangeOf([line(["NaN"])])).toBeNull();
});

test("a flat series is a line at the bottom", () => {
  const lines = [line([2, 2])];
  const range = rangeOf(lines);
  expect(range && pathOf(lines[0]?.series.points ?? [], range, 100, 10)).toBe("M0.0 10.0L100.0 10.0");
});

test("series with the same key are in one chart", () => {
  const groups = group([[series("loss", [1]), series("acc", [1])], [series("loss", [2])]]);
  expect(groups.map(([key, lines]) => [key, lines.map((l) => l.run)])).toEqual([
    ["acc", [0]],
    ["loss", [0, 1]],
  ]);
});

test("twenty runs have strokes of their own", () => {
  expect(new Set(Array.from({ length: 20 }, (_, run) => JSON.stringify(strokeOf(run)))).size).toBe(20);
});

test("the state of a link", () => {
  const now = Date.parse("2026-11-25T00:00:00Z");
  expect(stateOf({ revoked_at: null, expires_at: null }, now)).toBe("active");
  expect(stateOf({ revoked_at: null, expires_at: "2026-11-24T23:59:59Z" }, now)).toBe("expired");
  expect(stateOf({ revoked_at: "2026-11-20T00:00:00Z", expires_at: null }, now)).toBe("revoked");
  expect(targetsOf("job_a, job_b\njob_a")).toEqual(["job_a", "job_b"]);
});
