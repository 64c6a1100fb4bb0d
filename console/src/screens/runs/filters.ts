import { list, oneOf, text } from "@/lib/search";
import { jobStates } from "@/screens/jobs/filters";

export const runStates = ["all", "finished", ...jobStates] as const;
export const sorts = ["created_at", "ended_at", "name"] as const;
export const archivedChoices = ["false", "true", "all"] as const;

export type RunsSearch = {
  state?: (typeof runStates)[number];
  owner?: string;
  recipe?: string;
  q?: string;
  tag?: string[];
  label?: string[];
  archived?: (typeof archivedChoices)[number];
  sort?: (typeof sorts)[number];
};

export function runsSearch(search: Record<string, unknown>): RunsSearch {
  const archived = oneOf(String(search.archived), archivedChoices);
  return {
    state: oneOf(search.state, runStates),
    owner: text(search.owner, 128),
    recipe: text(search.recipe, 256),
    q: text(search.q, 200),
    tag: list(search.tag, 64, 16),
    label: list(search.label, 256, 16),
    // Without the filter, the list has the runs that are not archived.
    archived: archived === "false" ? undefined : archived,
    sort: oneOf(search.sort, sorts),
  };
}

export type RunsQuery = RunsSearch & { project?: string };

// toQuery returns the filters as the query of the stream of the list: all states unless they name some.
export function toQuery(filters: Omit<RunsQuery, "sort">): URLSearchParams {
  const query = new URLSearchParams({ state: filters.state ?? "all" });
  for (const name of ["project", "owner", "recipe", "q", "archived"] as const) {
    const value = filters[name];
    if (value) query.set(name, value);
  }
  for (const name of ["tag", "label"] as const) for (const word of filters[name] ?? []) query.append(name, word);
  return query;
}

// noMore removes the filters that the filter bar does not show by themselves.
export const noMore = { recipe: undefined, tag: undefined, label: undefined, archived: undefined };

// countMore returns how many of them are set. Each tag and each label counts.
export function countMore({ recipe, tag = [], label = [], archived }: RunsSearch): number {
  return tag.length + label.length + (recipe === undefined ? 0 : 1) + (archived === undefined ? 0 : 1);
}

// noFilters removes what the filter bar can clear.
export const noFilters: RunsSearch = { state: undefined, owner: undefined, q: undefined, ...noMore };

export function filtered({ sort: _, ...filters }: RunsSearch): boolean {
  return (Object.keys(noFilters) as (keyof typeof filters)[]).some((name) => filters[name] !== undefined);
}
