import { expect, test } from "vitest";
import { all } from "./all";

const list = (length: number) => {
  const asked: number[] = [];
  const read = async (limit: number, offset: number) => {
    asked.push(offset);
    return Array.from({ length: Math.max(0, Math.min(limit, length - offset)) }, (_, at) => offset + at);
  };
  return { asked, read };
};

test("a list is read to its end, each row once", async () => {
  const { asked, read } = list(450);
  expect(await all(read)).toEqual(Array.from({ length: 450 }, (_, at) => at));
  expect(asked).toEqual([0, 200, 400]);
});

test("a list without end is read to the bound", async () => {
  expect(await all(list(10_000).read, 600)).toHaveLength(600);
});
