// @vitest-environment node
import { expect, test } from "vitest";
import type { Sample } from "./api";
import { histogram } from "./bins";
import { wordDiff } from "./diff";
import { firstLine, lengthOf, turns, withheldOf } from "./text";
import { samplesView } from "./view";

const sample = (part: Partial<Sample>): Sample => ({
  step: 1,
  index: 0,
  user: null,
  assistant: null,
  env: null,
  reward: null,
  extra: null,
  prompt: null,
  attempt: 1,
  rank: 0,
  id: "1.1.0.0",
  truncated: false,
  text_next: null,
  ...part,
});

test("a part is a text, messages or any JSON, and no member is lost", () => {
  expect(turns("hi", "user")).toEqual([{ role: "user", text: "hi" }]);
  expect(
    turns(
      [
        { role: "system", content: "s" },
        { role: "user", content: "u" },
      ],
      "user",
    ),
  ).toEqual([
    { role: "system", text: "s" },
    { role: "user", text: "u" },
  ]);
  expect(turns([{ role: "x" }], "assistant")).toEqual([{ role: "assistant", text: '[\n  {\n    "role": "x"\n  }\n]' }]);
  expect(turns({ role: "tool", content: "c", name: "n" }, "env")[0]?.text).toContain('"name": "n"');
  expect(turns(null, "env")).toEqual([]);
});

test("a list shows the first line of the last user turn", () => {
  expect(firstLine(sample({ user: "\n\n  What is 2+2?\nThink." }))).toBe("What is 2+2?");
  expect(
    firstLine(
      sample({
        user: [
          { role: "system", content: "You" },
          { role: "user", content: "Hi" },
        ],
      }),
    ),
  ).toBe("Hi");
  expect(firstLine(sample({}))).toBe("");
});

test("a protected sample has only lengths", () => {
  const hidden = sample({ extra: { withheld: { assistant: 15, env: null, user: 14 } } });
  expect(withheldOf(hidden)).toEqual({ assistant: 15, env: null, user: 14 });
  expect(lengthOf(hidden)).toBe(15);
  expect(withheldOf(sample({ user: "u", extra: { withheld: { user: 1 } } }))).toBeNull();
});

const text = (changes: ReturnType<typeof wordDiff>, without: string) =>
  changes.flatMap((change) => (change.kind === without ? [] : [change.text])).join("");

test("a diff has both texts, and marks only the words that differ", () => {
  expect(wordDiff("the cat sat", "the dog sat")).toEqual([
    { kind: "same", text: "the " },
    { kind: "removed", text: "cat" },
    { kind: "added", text: "dog" },
    { kind: "same", text: " sat" },
  ]);
  const pairs = [
    ["", "a b"],
    ["a b", ""],
    ["x = $\\frac{1}{2}$", "x = $\\frac{3}{2}$ 答案"],
    ["a\nb", "b\na"],
  ] as const;
  for (const [before, after] of pairs) {
    const changes = wordDiff(before, after);
    expect(text(changes, "added")).toBe(before);
    expect(text(changes, "removed")).toBe(after);
  }
});

test("long texts are compared too", () => {
  const long = Array.from({ length: 60_000 }, (_, at) => `word${at % 977}`).join(" ");
  const changes = wordDiff(`a ${long} b`, `c ${long.replaceAll("word5", "ward5")} d`);
  expect(text(changes, "added")).toBe(`a ${long} b`);
});

test("a histogram counts every finite value once", () => {
  expect(histogram([1, 1, 1], 10)).toEqual([{ from: 1, to: 1, count: 3 }]);
  const bins = histogram([0, 0.1, 0.5, 1, Number.NaN, Number.POSITIVE_INFINITY], 4);
  expect(bins.map((bin) => bin.count)).toEqual([2, 0, 1, 1]);
  expect(histogram([Number.NaN], 4)).toEqual([]);
});

test("an address that is not valid still opens", () => {
  expect(samplesView({ step: "x", sample: -1, min: "0.5", max: "" })).toMatchObject({
    step: undefined,
    sample: undefined,
    min: 0.5,
    max: undefined,
  });
});
