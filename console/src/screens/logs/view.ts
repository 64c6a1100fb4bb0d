import { integer, oneOf, text } from "@/lib/search";

// The levels of lines, from the lowest.
export const levels = ["debug", "info", "warning", "error"] as const;
export type Level = (typeof levels)[number];

// How many lines around a matching line can be shown.
export const arounds = ["3", "10"] as const;

export type LogsView = {
  // The regular expression to search for.
  find?: string;
  // Whether the letters' case matters.
  case?: true;
  // Whether only matching lines are shown.
  only?: true;
  // How many lines before and after each matching line are shown too.
  around?: (typeof arounds)[number];
  rank?: number;
  // The name of the node that the lines are from.
  node?: string;
  attempt?: number;
  // Only lines of this level or a higher one.
  level?: Level;
  // When the lines arrived, in UTC to the second: 2026-11-25T03:00:00.
  since?: string;
  until?: string;
  times?: true;
  wrap?: true;
};

export function logsView(search: Record<string, unknown>): LogsView {
  return {
    find: text(search.find, 1000),
    case: flag(search.case),
    only: flag(search.only),
    around: oneOf(String(search.around), arounds),
    rank: integer(search.rank, 0, 2147483647),
    node: text(search.node, 255),
    attempt: integer(search.attempt, 1, 2147483647),
    level: oneOf(search.level, levels),
    since: moment(search.since),
    until: moment(search.until),
    times: flag(search.times),
    wrap: flag(search.wrap),
  };
}

function flag(value: unknown): true | undefined {
  return value === true || value === "true" ? true : undefined;
}

function moment(value: unknown): string | undefined {
  const time = text(value, 19);
  if (!time || !/^[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9](:[0-5][0-9])?$/.test(time)) return undefined;
  const whole = time.length === 16 ? `${time}:00` : time;
  return Number.isNaN(Date.parse(`${whole}Z`)) ? undefined : whole;
}

export type Filters = { rank?: number; node?: string; attempt?: number; level?: Level; since?: string; until?: string };

// filtersOf returns the filters of a view as the API takes them, or null if there is none.
export function filtersOf({ rank, node, attempt, level, since, until }: LogsView): Filters | null {
  const set = [rank, node, attempt, level, since, until].some((value) => value !== undefined);
  return set ? { rank, node, attempt, level, since: since && `${since}Z`, until: until && `${until}Z` } : null;
}

export const noFilters = {
  rank: undefined,
  node: undefined,
  attempt: undefined,
  level: undefined,
  since: undefined,
  until: undefined,
};

// countFilters returns how many of the filters are set that the toolbar hides: noFilters, and the lines around matches.
export function countFilters(view: LogsView): number {
  const names = Object.keys(noFilters) as (keyof typeof noFilters)[];
  return names.filter((name) => view[name] !== undefined).length + (view.find && view.only && view.around ? 1 : 0);
}

// lineOf reads the number of a line from the fragment of an address, such as L123.
export function lineOf(hash: string): number | null {
  const found = /^#?L([1-9][0-9]{0,15})$/.exec(hash);
  return found ? Number(found[1]) : null;
}
