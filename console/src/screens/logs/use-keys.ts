import { type RefObject, useEffect, useRef } from "react";
import type { Matches } from "./use-matches";
import type { LogsView } from "./view";

type Actions = {
  view: LogsView;
  change: (change: Partial<LogsView>) => void;
  matches: Matches;
  search: RefObject<HTMLInputElement | null>;
  end: () => void;
  follow: () => void;
};

// useKeys handles the keys of the log: n and N for the matches, f to follow, t for times, w to wrap, End for the last line.
export function useKeys(actions: Actions): void {
  const now = useRef(actions);
  now.current = actions;
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.metaKey || event.ctrlKey || event.altKey || event.defaultPrevented || busy(event.target)) return;
      const { view, change, matches, end, follow } = now.current;
      const keys: Record<string, () => void> = {
        n: () => matches.go(1),
        N: () => matches.go(-1),
        f: follow,
        t: () => change({ times: view.times ? undefined : true }),
        w: () => change({ wrap: view.wrap ? undefined : true }),
        End: end,
      };
      const act = keys[event.key];
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
