import { expect, it } from "vitest";
import { chosen, patternsOf } from "./chosen";

const keys = ["lr", "train/accuracy", "train/loss", "val/exact_match", "val/loss"];

it("shows what the recipe names, in its order", () => {
  expect(chosen(keys, ["val/*", "train/loss"])).toEqual(["val/exact_match", "val/loss", "train/loss"]);
  expect(chosen(["a.b", "aXb"], ["a.b"])).toEqual(["a.b"]);
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

it("reads the metrics with a goal from a recipe", () => {
  expect(patternsOf([{ key: "a", goal: "minimize" }, { key: "b" }, null, 1])).toEqual(["a"]);
  expect(patternsOf({})).toEqual([]);
});
