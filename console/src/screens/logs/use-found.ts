import { useCallback, useEffect, useMemo, useReducer, useState } from "react";
import type { Schemas } from "@/api/client";
import { read } from "@/api/read";
import { type Lines, placeOf } from "./lines";
import type { LogLine } from "./store";
import type { Filters } from "./view";

export type Conditions = Filters & { pattern?: string; ignore_case?: boolean; context?: number };

export type Found = Lines & {
  lines: readonly LogLine[];
  // complete means that the search has reached the end of the log.
  complete: boolean;
  searching: boolean;
  error: unknown;
  // more searches until there are this many lines.
  more: (count: number) => void;
};

type State = { key: string; lines: LogLine[]; searched: number; complete: boolean; error: unknown };

// Not more lines than this are held.
export const mostFound = 50_000;
const pause = 1000;

// useFound searches the log on the server, from its first line on, as far as the lines are wanted. conditions null means no
// search. When the log has new lines, the search continues.
export function useFound(runId: string, conditions: Conditions | null, last: number, firstGoal: number): Found {
  const path = `/api/runs/${encodeURIComponent(runId)}/logs/search`;
  const key = conditions === null ? "" : `${path} ${JSON.stringify(conditions)}`;
  const [state, setState] = useState<State>(() => begin(key));
  const [goal, setGoal] = useReducer(
    (before: number, next: number) => (next === 0 ? firstGoal : Math.max(before, next)),
    firstGoal,
  );
  if (state.key !== key) {
    setState(begin(key));
    setGoal(0);
  }
  const behind = state.complete && state.searched < last;
  const open = key !== "" && state.key === key && state.error === null && (!state.complete || behind);
  const searching = open && state.lines.length < Math.min(goal, mostFound);

  useEffect(() => {
    if (!searching || conditions === null) return;
    const stop = new AbortController();
    const search = () =>
      read<Schemas["SearchLogsResponse"]>(path, { ...conditions, after: state.searched, limit: 500 }, stop.signal).then(
        (found) => setState((before) => (before.key === key ? add(before, found) : before)),
        (error) => stop.signal.aborted || setState((before) => (before.key === key ? { ...before, error } : before)),
      );
    const timer = setTimeout(search, behind ? pause : 0);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [searching, behind, key, path, state.searched, conditions]);

  const more = useCallback((count: number) => setGoal(Math.min(count, mostFound)), []);
  const { lines } = state;
  return useMemo(
    () => ({
      lines,
      version: lines.length,
      count: lines.length,
      at: (index) => lines[index],
      indexOf: (seq) => placeOf(lines, seq),
      need: (_, end) => more(end + 1000),
      complete: state.complete,
      searching: searching && !behind,
      error: state.error,
      more,
    }),
    [lines, state.complete, state.error, searching, behind, more],
  );
}

function begin(key: string): State {
  return { key, lines: [], searched: 0, complete: false, error: null };
}

function add(before: State, found: Schemas["SearchLogsResponse"]): State {
  // The lines around a match may come again with the next call.
  const last = before.lines.at(-1)?.seq ?? 0;
  const lines = found.lines.filter((line) => line.seq > last);
  return {
    ...before,
    lines: lines.length > 0 ? [...before.lines, ...lines] : before.lines,
    searched: Math.max(before.searched, found.searched),
    complete: found.complete,
  };
}
