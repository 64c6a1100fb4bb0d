import { useCallback, useEffect, useMemo, useRef } from "react";
import { type Conditions, type Found, useFound } from "./use-found";
import type { Log } from "./use-log";
import { filtersOf, type LogsView } from "./view";

export type Matches = {
  active: boolean;
  count: number;
  // at is the place of the selected match, from 1; 0 if none is selected.
  at: number;
  complete: boolean;
  searching: boolean;
  error: unknown;
  has: (seq: number) => boolean;
  go: (step: 1 | -1) => void;
};

const goal = 2000;

// useMatches finds the lines that match the search, and goes from one to the next.
export function useMatches(
  runId: string,
  view: LogsView,
  log: Log,
  // shared are the matches, if the view has searched them already.
  shared: Found | null,
  selected: number | null,
  show: (seq: number) => void,
): Matches {
  const { find, rank, node, attempt, level, since, until } = view;
  const caseMatters = view.case === true;
  const conditions = useMemo<Conditions | null>(
    () =>
      find
        ? { pattern: find, ignore_case: !caseMatters, ...filtersOf({ rank, node, attempt, level, since, until }) }
        : null,
    [find, caseMatters, rank, node, attempt, level, since, until],
  );
  const own = useFound(runId, log.ready && !shared ? conditions : null, log.count, goal);
  const found = shared ?? own;
  const { lines, indexOf, more } = found;
  const numbers = useMemo(() => new Set(lines.map((line) => line.seq)), [lines]);
  const at = selected !== null && numbers.has(selected) ? indexOf(selected) + 1 : 0;

  const go = useCallback(
    (step: 1 | -1) => {
      if (lines.length === 0) return;
      const here = selected === null ? -1 : indexOf(selected);
      const exact = here >= 0 && lines[here]?.seq === selected;
      const next = step === 1 ? here + 1 : exact ? here - 1 : here;
      if (next + 100 > lines.length) more(lines.length + goal);
      const line = lines[(next + lines.length) % lines.length];
      if (line) show(line.seq);
    },
    [lines, indexOf, selected, more, show],
  );

  // A new search shows its first match.
  const shown = useRef<Conditions | null>(selected === null ? null : conditions);
  useEffect(() => {
    const first = lines[0];
    if (shown.current === conditions || !first || conditions === null) return;
    shown.current = conditions;
    show((lines[indexOf(selected ?? 0)] ?? first).seq);
  }, [conditions, lines, indexOf, selected, show]);

  return {
    active: conditions !== null,
    count: lines.length,
    at,
    complete: found.complete,
    searching: found.searching,
    error: found.error,
    // Where only matches are shown, there is no need to mark them.
    has: useCallback((seq: number) => shared === null && numbers.has(seq), [numbers, shared]),
    go,
  };
}
