// @vitest-environment node
import { expect, it } from "vitest";
import { readAll } from "./read-all";

// list is a list of `length` rows that keeps how many of its pages were read at the same time.
function list(length: number, size = 10) {
  const rounds: number[] = [];
  let open = 0;
  return {
    rounds,
    read: async (offset: number) => {
      if (open++ === 0) rounds.push(0);
      rounds.push((rounds.pop() ?? 0) + 1);
      await new Promise((resolve) => setTimeout(resolve));
      open--;
      return Array.from({ length: Math.max(0, Math.min(size, length - offset)) }, (_, at) => offset + at);
    },
  };
}

it.each([
  [0, [1]],
  [9, [1]],
  [10, [1, 3]],
  [30, [1, 3]],
  [39, [1, 3]],
  [41, [1, 3, 6]],
])("reads a list of %i rows in few rounds", async (length, rounds) => {
  const all = list(length);
  expect(await readAll(all.read, 10, 100)).toEqual(Array.from({ length }, (_, at) => at));
  expect(all.rounds).toEqual(rounds);
});

it("stops at the most rows", async () => {
  const all = list(1000);
  expect(await readAll(all.read, 10, 50)).toHaveLength(50);
  expect(all.rounds).toEqual([1, 3, 1]);
});

it("fails if a page fails", async () => {
  const all = list(1000);
  const read = (offset: number) => (offset === 20 ? Promise.reject(new Error("refused")) : all.read(offset));
  await expect(readAll(read, 10, 100)).rejects.toThrow("refused");
});
