import { expect, test } from "vitest";
import { changesOf } from "./audit";
import { byKey, parseConfig } from "./hardware";

test("only a document with both lists is read", () => {
  expect(parseConfig('{"series":[],"profiles":[]}')).toEqual({ series: [], profiles: [] });
  expect(parseConfig('{"series":[]}')).toBeNull();
  expect(parseConfig("null")).toBeNull();
  expect(parseConfig("{")).toBeNull();
});

test("an entry is compared with itself when the order changes", () => {
  const before = {
    series: [
      { key: "a", vram_gb: 80 },
      { key: "b", vram_gb: 40 },
    ],
    profiles: [],
  };
  const after = {
    series: [
      { key: "b", vram_gb: 48 },
      { key: "a", vram_gb: 80 },
    ],
    profiles: [],
  };
  expect(changesOf(byKey(before), byKey(after))).toEqual([{ path: "series.b.vram_gb", before: "40", after: "48" }]);
});
