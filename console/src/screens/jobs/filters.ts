import { list, oneOf, text } from "@/lib/search";

export const jobStates = [
  "queued",
  "scheduled",
  "starting",
  "running",
  "pausing",
  "paused",
  "stopping",
  "succeeded",
  "failed",
  "stopped",
] as const;
export type JobState = (typeof jobStates)[number];

export type JobsSearch = { state?: JobState; owner?: string; q?: string; label?: string[] };

export function jobsSearch(search: Record<string, unknown>): JobsSearch {
  return {
    state: oneOf(search.state, jobStates),
    owner: text(search.owner, 128),
    q: text(search.q, 200),
    label: list(search.label, 256, 16),
  };
}

export type JobsQuery = JobsSearch & { project?: string };

// filtered reports whether a filter is set that the filter bar can clear.
export function filtered({ state, owner, q, label }: JobsSearch): boolean {
  return Boolean(state || owner || q || label);
}

// toQuery returns the filters as the query of the list and of its stream.
export function toQuery(filters: JobsQuery): URLSearchParams {
  const query = new URLSearchParams();
  for (const name of ["project", "state", "owner", "q"] as const) {
    const value = filters[name];
    if (value) query.set(name, value);
  }
  for (const label of filters.label ?? []) query.append("label", label);
  return query;
}
