import { useCallback, useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import { type ApiError, toApiError } from "./error";
import { type LiveRow, LiveTable } from "./live-table";
import { byKey } from "./pages";
import type { StreamEvent, StreamState } from "./stream";
import { rankOfObject, useEventStream } from "./use-event-stream";

const pageSize = 100;
const pollEvery = 15_000;

export type LiveList<T> = {
  rows: T[];
  pending: boolean;
  error: ApiError | null;
  // stale is the error if there are rows, which the reading that failed did not change.
  stale: ApiError | null;
  stream: StreamState;
  more: boolean;
  loadingMore: boolean;
  loadMore: () => void;
  // retry repeats what failed: the reading of the list, or of its next page.
  retry: () => void;
  // put shows a row that an action returned, before the stream sends it.
  put: (row: T) => void;
};

// A list whose changes a stream of the same filters sends, as an event of the given name for each changed row.
export type LiveSource<T> = {
  // url is the address of the stream, with the filters. Another url is another list; null is an empty one.
  url: string | null;
  event: string;
  read: (limit: number, after: string | undefined, signal: AbortSignal) => Promise<T[]>;
};

type Reading = { pending: boolean; loadingMore: boolean; more: boolean; error: ApiError | null };
const start: Reading = { pending: true, loadingMore: false, more: false, error: null };

// useLiveList reads a list page by page and keeps the loaded pages up to date by its stream.
export function useLiveList<T extends LiveRow & { created_at: string }>(source: LiveSource<T>): LiveList<T> {
  const { url, event: changed } = source;
  // biome-ignore lint/correctness/useExhaustiveDependencies: other filters are another table
  const table = useMemo(() => new LiveTable<T>((task) => requestAnimationFrame(task)), [url]);
  const rows = useSyncExternalStore(table.subscribe, table.rows);
  const [reading, setReading] = useState<Reading>(start);
  const flight = useRef<AbortController | null>(null);
  // The position after which the page that failed begins.
  const failed = useRef<string | null>(null);
  const readPage = useRef(source.read);
  readPage.current = source.read;

  const read = useCallback(
    async (after: string | null) => {
      flight.current?.abort();
      const stop = new AbortController();
      flight.current = stop;
      setReading((r) => ({ ...r, loadingMore: after !== null }));
      table.begin();
      try {
        const page = byKey(await readPage.current(pageSize + 1, after ?? undefined, stop.signal), pageSize);
        if (after === null) table.replace(page.rows, page.next);
        else table.append(page.rows, page.next);
        failed.current = null;
        setReading({ pending: false, loadingMore: false, more: page.next !== null, error: null });
      } catch (error) {
        if (stop.signal.aborted) return;
        failed.current = after;
        setReading((r) => ({ ...r, pending: false, loadingMore: false, error: toApiError(error) }));
      }
    },
    [table],
  );

  // biome-ignore lint/correctness/useExhaustiveDependencies: another table is read from its start
  useEffect(() => {
    setReading(start);
    failed.current = null;
    return () => flight.current?.abort();
  }, [table]);

  const onEvent = useCallback(
    ({ event, data }: StreamEvent) => {
      if (event === "reset") void read(null);
      if (event === changed) table.put(data as T);
      if (event === "gone") table.remove((data as { id: string }).id);
    },
    [read, table, changed],
  );
  const { state } = useEventStream(url, rankOfObject, onEvent);

  // Without a stream, such as behind a proxy that holds it back, the list is read now and then.
  const cut = state === "failed" || state === "reconnecting" || state === "waiting";
  useEffect(() => {
    if (!cut) return;
    if (table.oldest === null) void read(null);
    const timer = setInterval(() => void read(null), pollEvery);
    return () => clearInterval(timer);
  }, [cut, read, table]);

  return {
    rows,
    pending: reading.pending,
    error: reading.error,
    stale: rows.length > 0 ? reading.error : null,
    stream: state,
    more: reading.more,
    loadingMore: reading.loadingMore,
    loadMore: () => table.next !== null && void read(table.next),
    retry: () => void read(failed.current),
    put: (row) => table.put(row),
  };
}
