// @vitest-environment node
import { expect, test } from "vitest";
import { parseAnsi } from "./ansi";
import { contrast, legible, paletteColor, type Rgb } from "./color";
import { highlighter, mark } from "./highlight";
import { placeOf } from "./lines";
import { rowHeight, scaleOf, visibleRange } from "./position";
import { type LogLine, LogStore, pageSize } from "./store";
import { countFilters, filtersOf, lineOf, logsView, noFilters } from "./view";

const line = (seq: number): LogLine => ({
  seq,
  attempt: 1,
  ts: null,
  text: `line ${seq}`,
  rank: null,
  truncated: false,
  node: null,
});
const lines = (first: number, last: number) => Array.from({ length: last - first + 1 }, (_, at) => line(first + at));

test("a store knows which pages of a log it lacks", () => {
  const store = new LogStore();
  store.put(lines(1201, 1700));
  expect(store.last).toBe(1700);
  expect(store.missing(1501, 1700)).toEqual([]);
  expect(store.missing(1, 1700)).toEqual([0, 1, 2]);
  store.put(lines(1001, 1500));
  expect(store.missing(1001, 1700)).toEqual([]);
  expect(store.line(1001)?.text).toBe("line 1001");
});

test("a store adds a line once and in its place, however it arrives", () => {
  const store = new LogStore();
  store.put([line(3), line(1), line(3), line(2)]);
  expect([1, 2, 3].map((seq) => store.line(seq)?.seq)).toEqual([1, 2, 3]);
  expect(store.last).toBe(3);
});

test("a store keeps 50,000 lines, those that were used last", () => {
  const store = new LogStore();
  store.put(lines(1, pageSize * 100));
  expect(store.missing(1, pageSize)).toEqual([]);
  store.put(lines(pageSize * 100 + 1, pageSize * 101));
  expect(store.line(1)).toBeDefined();
  expect(store.line(pageSize + 1)).toBeUndefined();
});

test("the scrollbar is scaled above 1.5 million lines, and reaches both ends", () => {
  expect(scaleOf(1_500_000, 600).factor).toBe(1);
  const scale = scaleOf(20_000_000, 600);
  expect(scale.shown).toBe(1_500_000 * rowHeight);
  expect((scale.shown - 600) * scale.factor).toBeCloseTo(scale.end);
  expect(visibleRange(scale.end, 600, 20_000_000).last).toBe(19_999_999);
  expect(visibleRange(0, 600, 20_000_000).first).toBe(0);
});

test("colours are parsed, other sequences are dropped, carriage returns overwrite", () => {
  const style = (text: string) => parseAnsi(text);
  expect(style("a\u001b[31mred\u001b[0mb")).toEqual([
    { text: "a", style: {} },
    { text: "red", style: { color: paletteColor(1) } },
    { text: "b", style: {} },
  ]);
  expect(style("\u001b[1;38;2;1;2;3mx\u001b[22my")[1]).toEqual({ text: "y", style: { color: [1, 2, 3] } });
  expect(style("\u001b[38;5;300mx")).toEqual([{ text: "x", style: {} }]);
  expect(
    style("\u001b[2Ka\u001b]0;title\u0007b\u001b[?25lc")
      .map((p) => p.text)
      .join(""),
  ).toBe("abc");
  expect(style("10%\r55%\r100%\r").map((p) => p.text)).toEqual(["100%"]);
  expect(style("<script>alert(1)</script>")[0]?.text).toBe("<script>alert(1)</script>");
});

test("every colour gets a contrast of 4.5", () => {
  const backgrounds: Rgb[] = [
    [228, 232, 224],
    [52, 51, 43],
    [190, 40, 30],
    [128, 128, 128],
  ];
  for (let index = 0; index < 256; index++)
    for (const background of backgrounds)
      expect(contrast(legible(paletteColor(index), background), background)).toBeGreaterThanOrEqual(4.5);
});

test("matches are marked across pieces, and a pattern that could be slow is not run", () => {
  const pieces = parseAnsi("los\u001b[31ms=1 loss\u001b[0m");
  const found = mark(pieces, highlighter("LOSS", false)).filter((piece) => piece.found);
  expect(found.map((piece) => piece.text)).toEqual(["los", "s", "loss"]);
  expect(highlighter("(a+)+$", false)).toBeNull();
  expect(highlighter("[", false)).toBeNull();
  expect(highlighter("loss\\(x\\)", true)).not.toBeNull();
  expect(mark(pieces, highlighter("\\b", false)).some((piece) => piece.found)).toBe(false);
});

test("the place of a line among matches is found", () => {
  const some = [line(2), line(5), line(9)];
  expect([1, 2, 4, 5, 9, 100].map((seq) => placeOf(some, seq))).toEqual([-1, 0, 0, 1, 2, 2]);
});

test("an address that is not valid still opens", () => {
  expect(lineOf("L123")).toBe(123);
  expect(lineOf("#L0")).toBeNull();
  expect(logsView({ rank: "x", attempt: 0, find: 12, wrap: "yes", level: "loud", since: "now" })).toEqual({
    find: "12",
  });
  const view = logsView({ level: "warning", since: "2026-11-25T03:00", until: "2026-11-25T03:00:09" });
  expect(filtersOf(view)).toEqual({ level: "warning", since: "2026-11-25T03:00:00Z", until: "2026-11-25T03:00:09Z" });
  expect(filtersOf(logsView({ find: "x", since: "2026-13-45T03:00" }))).toBeNull();
});

test("the filters that the toolbar hides are counted", () => {
  const view = logsView({
    find: "loss",
    only: true,
    around: "3",
    rank: 0,
    node: "a",
    since: "2026-11-25T03:00",
    wrap: true,
  });
  expect(countFilters(view)).toBe(4);
  expect(countFilters({ ...view, only: undefined })).toBe(3);
  expect(countFilters({ ...view, ...noFilters, around: undefined })).toBe(0);
});
