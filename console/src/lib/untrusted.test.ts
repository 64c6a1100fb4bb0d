import { expect, test } from "vitest";
import { integer, list, oneOf, text } from "./search";
import { visible } from "./untrusted";

test("invisible characters are shown as escapes", () => {
  expect(visible("a\u202eb", 10).text).toBe("a\\u202eb");
  expect(visible("\u001b[31mred\u0007", 20).text).toBe("\\u001b[31mred\\u0007");
  expect(visible("x\u{e0041}", 10).text).toBe("x\\u{e0041}");
  expect(visible("zero\u200bwidth", 20).text).toBe("zero\\u200bwidth");
});

test("usual text stays as it is", () => {
  const kept = "模型 <b>bold</b>\ttab\nline é 🙂";
  expect(visible(kept, 100)).toEqual({ text: kept, cut: false });
});

test("text is cut, but no pair of surrogates", () => {
  expect(visible("abcdef", 3)).toEqual({ text: "abc", cut: true });
  expect(visible("ab🙂cd", 3)).toEqual({ text: "ab", cut: true });
  expect(visible("\ud83d", 3).text).toBe("\ufffd");
});

test("search parameters that are not valid are dropped", () => {
  expect(text("", 5)).toBeUndefined();
  expect(text("abcdef", 5)).toBeUndefined();
  expect(text(12, 5)).toBe("12");
  expect(text({ a: 1 }, 5)).toBeUndefined();
  expect(oneOf("failed", ["failed", "running"])).toBe("failed");
  expect(oneOf("odd", ["failed", "running"])).toBeUndefined();
  expect(list(["a", "", 7, null], 5, 2)).toEqual(["a", "7"]);
  expect(list(undefined, 5, 2)).toBeUndefined();
  expect(integer("5", 1, 9)).toBe(5);
  expect(integer(99, 1, 9)).toBeUndefined();
});
