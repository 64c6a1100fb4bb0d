import { useCallback, useEffect, useRef } from "react";
import type { Pages } from "@/api/pages";
import { type Round, type Sample, usePrefetch } from "./api";
import { markOf, type SamplesView } from "./view";

export type Choice = {
  sample: Sample | undefined;
  // place is the place of the sample in the list, from 0.
  place: number;
  pending: boolean;
  goTo: (place: number) => void;
  goToStep: (step: number) => void;
  // open shows a sample of another round.
  open: (sample: Sample) => void;
  toggleDiff: () => void;
  toggleMark: () => void;
};

const ahead = 3;

// useChoice is the sample that is shown, and the keys that change it: j and k, [ and ], d and m.
export function useChoice(
  runId: string,
  view: SamplesView,
  change: (change: Partial<SamplesView>) => void,
  rounds: readonly Round[],
  round: Round | undefined,
  list: Pages<Sample>,
  filter: Pick<SamplesView, "contains" | "min" | "max">,
): Choice {
  const { rows, more, loadMore, loadingMore } = list;
  const found = view.sample === undefined ? 0 : rows.findIndex((sample) => sample.index === view.sample);
  // A sample of the address may be on a later page; if it is on none, the first one is shown.
  const missing = found === -1;
  const place = missing ? 0 : found;
  const sample = missing && more ? undefined : rows[place];

  useEffect(() => {
    if ((missing || place + ahead >= rows.length) && more && !loadingMore) loadMore();
  }, [missing, place, rows.length, more, loadingMore, loadMore]);

  const prefetch = usePrefetch(runId, filter);
  useEffect(() => {
    prefetch(rows.slice(place + 1, place + 1 + ahead), place + 1);
  }, [prefetch, rows, place]);

  const goTo = useCallback(
    (to: number) => {
      const next = rows[Math.max(0, Math.min(to, rows.length - 1))];
      if (next) change({ sample: next.index, step: next.step });
    },
    [rows, change],
  );
  const goToStep = useCallback((step: number) => change({ step }), [change]);
  const open = useCallback(
    (to: Sample) => change({ step: to.step, sample: to.index, contains: undefined, min: undefined, max: undefined }),
    [change],
  );
  const toggleDiff = useCallback(() => change({ diff: view.diff ? undefined : true }), [change, view.diff]);
  const toggleMark = useCallback(() => {
    if (!sample) return;
    const mark = markOf(sample);
    const before = view.marked ?? [];
    const after = before.includes(mark) ? before.filter((m) => m !== mark) : [...before, mark].slice(-50);
    change({ marked: after.length > 0 ? after : undefined });
  }, [change, sample, view.marked]);

  const step = (by: number) => {
    const at = rounds.findIndex((r) => r.step === round?.step);
    const next = rounds[at + by];
    if (next) goToStep(next.step);
  };
  useKeys({
    j: () => goTo(place + 1),
    k: () => goTo(place - 1),
    "[": () => step(-1),
    "]": () => step(1),
    d: toggleDiff,
    m: toggleMark,
  });
  return { sample, place, pending: list.pending || (missing && more), goTo, goToStep, open, toggleDiff, toggleMark };
}

function useKeys(keys: Record<string, () => void>): void {
  const now = useRef(keys);
  now.current = keys;
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.metaKey || event.ctrlKey || event.altKey || event.defaultPrevented || busy(event.target)) return;
      const act = now.current[event.key];
      if (!act) return;
      event.preventDefault();
      act();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
}

function busy(target: EventTarget | null): boolean {
  if (!(target instanceof Element)) return false;
  return target.closest("input,textarea,select,[contenteditable],[role=dialog],[role=menu],[role=listbox]") !== null;
}
