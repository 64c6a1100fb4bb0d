import { expect, it } from "vitest";
import { chosen, patternsOf } from "./chosen";

const keys = ["lr", "train/accuracy", "train/loss", "val/exact_match", "val/loss"];

it("shows what the recipe names, in its order", () => {
  expect(chosen(keys, ["val/*", "train/loss"])).toEqual(["val/exact_match", "val/loss", "train/loss"]);
  expect(chosen(["a.b", "aXb"], ["a.b"])).toEqual(["a.b"]);
  const many = Array.from({ length: 20 }, (_, at) => `m${at}`);
  expect(chosen(many, ["m*"])).toEqual(many.slice(0, 12));
});

it.each([
  ["*loss", ["train/loss", "val/loss"]],
  ["*/*c*", ["train/accuracy", "val/exact_match"]],
  ["l*r", ["lr"]],
  ["lr*lr", []],
  ["[lv]*", []],
  ["*", keys],
])("lets %s stand for what it matches", (pattern, matched) => {
  expect(chosen([...keys, "x"], [pattern, "x"])).toEqual(pattern === "*" ? [...keys, "x"] : [...matched, "x"]);
});

it("otherwise shows losses, rewards and accuracies, or the first metrics", () => {
  expect(chosen(keys, ["nothing"])).toEqual(["train/loss", "val/loss", "train/accuracy", "val/exact_match"]);
  expect(chosen(["loss_weight/lr", "grad"], [])).toEqual(["loss_weight/lr", "grad"]);
  expect(
    chosen(
      Array.from({ length: 9 }, (_, at) => `m${at}`),
      [],
    ),
  ).toHaveLength(6);
});

it("reads the charts of a recipe, otherwise its metrics with a goal", () => {
  const metrics = [{ key: "a", goal: "minimize" }, { key: "b" }, null, 1];
  expect(patternsOf({ charts: ["b", "c/*"], metrics })).toEqual(["b", "c/*"]);
  expect(patternsOf({ charts: [], metrics })).toEqual(["a"]);
  expect(patternsOf({ charts: [], metrics: {} })).toEqual([]);
});
