import { expect, test } from "vitest";
import { shownValue, textOf, valueFrom } from "./setting";

test("a value survives the form", () => {
  for (const [type, value] of [
    ["string", "a, b"],
    ["integer", 12],
    ["boolean", false],
    ["string_list", ["a b", "c"]],
  ] as const) {
    expect(valueFrom(type, textOf({ type, value }))).toEqual(value);
  }
});

test("a secret is never in the form", () => {
  expect(textOf({ type: "secret", value: "x" })).toBe("");
});

test("what is not a number stays a text", () => {
  expect(valueFrom("integer", "1.5")).toBe("1.5");
  expect(shownValue(null)).toBe("");
  expect(shownValue(["a", "b"])).toBe("a, b");
});
