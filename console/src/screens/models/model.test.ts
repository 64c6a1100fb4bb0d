import { expect, test } from "vitest";
import { factsOf } from "./facts";
import { versionOf } from "./version";

test("an address names a version by its number or as the latest", () => {
  const versions = [{ version: 3 }, { version: 2 }];
  expect(versionOf("2", { latest_version: 3 }, versions)).toBe(2);
  expect(versionOf("latest", { latest_version: 2 }, versions)).toBe(2);
  // All versions are archived or rejected.
  expect(versionOf("latest", { latest_version: null }, versions)).toBe(3);
  expect(versionOf("latest", { latest_version: null }, [])).toBeNull();
  for (const text of ["0", "-1", "1.5", "x", "99999999999"])
    expect(versionOf(text, { latest_version: 3 }, versions)).toBeNull();
});

test("only texts and numbers of a header are facts", () => {
  expect(factsOf({ parameters: 3, architecture: "llama", tensors: [1], more: { a: 1 } })).toEqual([
    ["parameters", 3],
    ["architecture", "llama"],
  ]);
  expect(factsOf(null)).toEqual([]);
  expect(factsOf(["a"])).toEqual([]);
});
