import { notifyManager, type Query, useQueryClient } from "@tanstack/react-query";
import { useCallback, useSyncExternalStore } from "react";
import { toApiError } from "./error";
import { permanent } from "./message";

// isStale reports whether a read failed although the page shows what an earlier one returned.
const isStale = (query: Query) => query.state.status === "error" && query.state.data !== undefined;

export type Stale = {
  // error is that of one of the reads; null if none failed.
  error: Error | null;
  // retry reads again. Without all, it leaves out what would fail again.
  retry: (all: boolean) => void;
};

// useStale finds the reads of the page that failed after an earlier one: a list or an object that was read again, or a further
// page of a list.
export function useStale(): Stale {
  const client = useQueryClient();
  const cache = client.getQueryCache();
  const subscribe = useCallback(
    (tell: () => void) => {
      const later = notifyManager.batchCalls(tell);
      return cache.subscribe(({ type }) => {
        if (type !== "added" && type !== "observerResultsUpdated" && type !== "observerOptionsUpdated") later();
      });
    },
    [cache],
  );
  const first = () => cache.findAll({ type: "active", predicate: isStale })[0]?.state.error ?? null;
  const error = useSyncExternalStore(subscribe, first);
  const retry = useCallback(
    (all: boolean) =>
      void client.refetchQueries({
        type: "active",
        predicate: (query) => isStale(query) && (all || !permanent(toApiError(query.state.error))),
      }),
    [client],
  );
  return { error, retry };
}
