import { oneOf, text } from "@/lib/search";

export const mostRuns = 50;
export const tabs = ["charts", "params", "values"] as const;
export const stats = ["latest", "min", "max"] as const;
export type Tab = (typeof tabs)[number];
export type Stat = (typeof stats)[number];

// runs are ids with commas between them; base is the run that the others are compared with, by default the first one.
export type CompareSearch = { runs?: string; base?: string; tab?: Tab; stat?: Stat; equal?: boolean; group?: string };

export function compareSearch(search: Record<string, unknown>): CompareSearch {
  const raw = Array.isArray(search.runs) ? search.runs.join(",") : search.runs;
  const ids = idsOf(text(raw, 2000));
  return {
    runs: ids.length > 0 ? ids.join(",") : undefined,
    base: ids.find((id) => id === search.base),
    tab: oneOf(search.tab, tabs),
    stat: oneOf(search.stat, stats),
    // An empty text is the group of all runs.
    group: search.group === "" ? "" : text(search.group, 200),
    equal: search.equal === true ? true : undefined,
  };
}

// idsOf returns the ids of runs or jobs in a text, each once.
export function idsOf(runs: string | undefined): string[] {
  const ids = (runs ?? "").split(/[,\s]+/).filter((id) => /^(?:run|job)_[0-9a-z]{6,40}$/.test(id));
  return [...new Set(ids)].slice(0, mostRuns);
}
