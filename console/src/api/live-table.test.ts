import { expect, test } from "vitest";
import { LiveTable } from "./live-table";

type Row = { id: string; version: number };
const row = (id: string, version = 1): Row => ({ id, version });
const fresh = () => new LiveTable<Row>((task) => task());
const shown = (table: LiveTable<Row>) =>
  table
    .rows()
    .map((r) => `${r.id}${r.version}`)
    .join(" ");

test("rows are shown newest first, each with its highest version", () => {
  const table = fresh();
  table.begin();
  table.replace([row("c"), row("b", 3)], null);
  table.put(row("b", 2));
  table.put(row("d"));
  table.put(row("c", 2));
  expect(shown(table)).toBe("d1 c2 b3");
});

test("changes that arrive while a page is read are applied after it", () => {
  const table = fresh();
  table.begin();
  table.put(row("b", 5));
  table.put(row("d"));
  table.remove("a");
  table.replace([row("c"), row("b", 4), row("a")], null);
  expect(shown(table)).toBe("d1 c1 b5");
});

test("a change of a row that is not loaded yet arrives with its page", () => {
  const table = fresh();
  table.begin();
  table.replace([row("d"), row("c")], "2026~c");
  table.put(row("a", 2));
  expect(shown(table)).toBe("d1 c1");
  table.begin();
  table.put(row("a", 3));
  table.append([row("b"), row("a", 1)], null);
  expect(shown(table)).toBe("d1 c1 b1 a3");
});

test("a reset drops the rows that the list no longer has", () => {
  const table = fresh();
  table.begin();
  table.replace([row("b"), row("a")], null);
  table.begin();
  table.replace([row("b")], null);
  expect(shown(table)).toBe("b1");
});

test("many changes make one render, and a page is shown at once", () => {
  const tasks: (() => void)[] = [];
  const table = new LiveTable<Row>((task) => tasks.push(task));
  let renders = 0;
  table.subscribe(() => renders++);
  table.begin();
  table.replace([row("a")], null);
  expect(shown(table)).toBe("a1");
  table.put(row("b"));
  table.put(row("c"));
  expect(shown(table)).toBe("a1");
  expect(tasks).toHaveLength(1);
  tasks[0]?.();
  expect(shown(table)).toBe("c1 b1 a1");
  expect(renders).toBe(2);
});

test("the same array is returned until a row changes", () => {
  const table = fresh();
  table.begin();
  table.replace([row("a")], null);
  const before = table.rows();
  table.remove("unknown");
  expect(table.rows()).toBe(before);
});

test("the next page begins after the position of the last one, not after an id", () => {
  const table = fresh();
  expect(table.next).toBeNull();
  table.begin();
  table.replace([row("d"), row("c")], "2026-11-27T03:00:00Z~c");
  table.put(row("e"));
  expect(table.next).toBe("2026-11-27T03:00:00Z~c");
  table.begin();
  table.append([row("b")], "2026-11-26T03:00:00Z~b");
  expect(table.next).toBe("2026-11-26T03:00:00Z~b");
  table.begin();
  table.append([row("a")], null);
  expect(table.next).toBeNull();
  expect(table.oldest).toBe("a");
});
