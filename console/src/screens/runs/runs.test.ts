import { expect, it } from "vitest";
import { splitTags } from "./EditDialog";
import { filtered, runsSearch } from "./filters";

it("reads the filters of the address", () => {
  expect(runsSearch({ state: "running", archived: true, tag: "a", sort: "?" })).toMatchObject({
    state: "running",
    archived: "true",
    tag: ["a"],
    sort: undefined,
  });
  expect(filtered(runsSearch({ sort: "name" }))).toBe(false);
  expect(filtered(runsSearch({ tag: "a" }))).toBe(true);
});

it("splits tags at commas of both languages", () => {
  expect(splitTags(" a, b，a ,")).toEqual(["a", "b"]);
});
