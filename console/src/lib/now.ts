import { useSyncExternalStore } from "react";

// One clock for all relative times of the page. It ticks once a second while something watches it.
const listeners = new Set<() => void>();
let now = Date.now();
let timer: ReturnType<typeof setInterval> | undefined;

function subscribe(listener: () => void): () => void {
  if (listeners.size === 0) {
    now = Date.now();
    timer = setInterval(() => {
      now = Date.now();
      for (const tell of listeners) tell();
    }, 1000);
  }
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) clearInterval(timer);
  };
}

// useNow renders the component again every `every` milliseconds.
export function useNow(every = 1000): number {
  return useSyncExternalStore(subscribe, () => Math.floor(now / every) * every);
}
