import { expect, it } from "vitest";
import { splitTags } from "./EditDialog";
import { countMore, filtered, noMore, runsSearch, toQuery } from "./filters";

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

it("counts the filters that the bar hides", () => {
  const search = runsSearch({
    q: "a",
    state: "running",
    owner: "ann",
    tag: ["a", "b"],
    label: "k=v",
    archived: "false",
  });
  expect(countMore(search)).toBe(3);
  expect(countMore({ ...search, archived: "all" })).toBe(4);
  expect(countMore({ ...search, ...noMore })).toBe(0);
  expect(countMore(runsSearch({ recipe: "demo/chat-tiny" }))).toBe(1);
});

it("follows the runs of the list", () => {
  expect(toQuery({}).toString()).toBe("state=all");
  const filters = { state: "running", project: "VIS", tag: ["a", "b"], label: ["k=v"], archived: "all" } as const;
  expect(toQuery({ ...filters, tag: [...filters.tag], label: [...filters.label] }).toString()).toBe(
    "state=running&project=VIS&archived=all&tag=a&tag=b&label=k%3Dv",
  );
});

it("splits tags at commas of both languages", () => {
  expect(splitTags(" a, b，a ,")).toEqual(["a", "b"]);
});
