import { expect, test } from "vitest";
import { byId, byKey, byOffset } from "./pages";

const rows = (count: number) => Array.from({ length: count }, (_, at) => ({ id: `r${at}`, created_at: `t${at}` }));

test("the row beyond the page means that there are more, and is not shown", () => {
  expect(byKey(rows(3), 2)).toEqual({ rows: rows(2), next: "t1~r1" });
  expect(byKey(rows(2), 2)).toEqual({ rows: rows(2), next: null });
  expect(byKey([], 2)).toEqual({ rows: [], next: null });
  expect(byId(rows(3), 2)).toEqual({ rows: rows(2), next: "r1" });
  expect(byId(rows(2), 2)).toEqual({ rows: rows(2), next: null });
  expect(byOffset(rows(3), 2, 4)).toEqual({ rows: rows(2), next: 6 });
  expect(byOffset(rows(1), 2, 4)).toEqual({ rows: rows(1), next: null });
});
