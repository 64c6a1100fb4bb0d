import { integer, oneOf, text } from "@/lib/search";

export const mostRuns = 50;
export const tabs = ["charts", "params", "values", "samples", "logs"] as const;
export const stats = ["latest", "min", "max"] as const;
export type Tab = (typeof tabs)[number];
export type Stat = (typeof stats)[number];

// runs are ids with commas between them; base is the run that the others are compared with, by default the first one.
// Samples and logs are those of base and of one other run, against. step is that of the round of the samples.
export type CompareSearch = {
  runs?: string;
  base?: string;
  against?: string;
  tab?: Tab;
  stat?: Stat;
  equal?: boolean;
  group?: string;
  step?: number;
};

export function compareSearch(search: Record<string, unknown>): CompareSearch {
  const raw = Array.isArray(search.runs) ? search.runs.join(",") : search.runs;
  const ids = idsOf(text(raw, 2000));
  return {
    runs: ids.length > 0 ? ids.join(",") : undefined,
    base: ids.find((id) => id === search.base),
    against: ids.find((id) => id === search.against),
    step: integer(search.step, -Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER),
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
