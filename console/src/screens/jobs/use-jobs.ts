import { useCallback, useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import { api, call } from "@/api/client";
import type { ApiError } from "@/api/error";
import { toApiError } from "@/api/error";
import { LiveTable } from "@/api/live-table";
import { byKey } from "@/api/pages";
import type { StreamEvent, StreamState } from "@/api/stream";
import { useEventStream } from "@/api/use-event-stream";
import { type JobsQuery, toQuery } from "./filters";
import type { Job } from "./job";

const pageSize = 100;
const pollEvery = 15_000;

export type LiveJobs = {
  jobs: Job[];
  pending: boolean;
  error: ApiError | null;
  stream: StreamState;
  more: boolean;
  loadingMore: boolean;
  loadMore: () => void;
  retry: () => void;
  // put shows a job that an action returned, before the stream sends it.
  put: (job: Job) => void;
};

type Reading = { pending: boolean; loadingMore: boolean; more: boolean; error: ApiError | null };
const start: Reading = { pending: true, loadingMore: false, more: false, error: null };

// useJobs reads the list of jobs page by page and keeps the loaded pages up to date by the stream of the same filters.
export function useJobs(filters: JobsQuery): LiveJobs {
  const query = toQuery(filters).toString();
  // biome-ignore lint/correctness/useExhaustiveDependencies: other filters are another table
  const table = useMemo(() => new LiveTable<Job>((task) => requestAnimationFrame(task)), [query]);
  const jobs = useSyncExternalStore(table.subscribe, table.rows);
  const [reading, setReading] = useState<Reading>(start);
  const flight = useRef<AbortController | null>(null);

  const read = useCallback(
    async (after: string | null) => {
      flight.current?.abort();
      const stop = new AbortController();
      flight.current = stop;
      setReading((r) => ({ ...r, error: null, loadingMore: after !== null }));
      table.begin();
      try {
        const page = byKey(await list(query, after, stop.signal), pageSize);
        if (after === null) table.replace(page.rows, page.next);
        else table.append(page.rows, page.next);
        setReading({ pending: false, loadingMore: false, more: page.next !== null, error: null });
      } catch (error) {
        if (stop.signal.aborted) return;
        setReading((r) => ({ ...r, pending: false, loadingMore: false, error: toApiError(error) }));
      }
    },
    [query, table],
  );

  // biome-ignore lint/correctness/useExhaustiveDependencies: another table is read from its start
  useEffect(() => {
    setReading(start);
    return () => flight.current?.abort();
  }, [table]);

  const onEvent = useCallback(
    ({ event, data }: StreamEvent) => {
      if (event === "reset") void read(null);
      if (event === "job") table.put(data as Job);
      if (event === "gone") table.remove((data as { id: string }).id);
    },
    [read, table],
  );
  const { state } = useEventStream(`/api/jobs/stream?${query}`, onEvent);

  // Without a stream, such as behind a proxy that holds it back, the list is read now and then.
  const cut = state === "failed" || state === "reconnecting";
  useEffect(() => {
    if (!cut) return;
    if (table.oldest === null) void read(null);
    const timer = setInterval(() => void read(null), pollEvery);
    return () => clearInterval(timer);
  }, [cut, read, table]);

  return {
    jobs,
    pending: reading.pending,
    error: reading.error,
    stream: state,
    more: reading.more,
    loadingMore: reading.loadingMore,
    loadMore: () => table.next !== null && void read(table.next),
    retry: () => void read(null),
    put: (job) => table.put(job),
  };
}

function list(query: string, after: string | null, signal: AbortSignal): Promise<Job[]> {
  const params = new URLSearchParams(query);
  const labels = params.getAll("label");
  const value = (name: string) => params.get(name) ?? undefined;
  return call(
    api.GET("/api/jobs", {
      params: {
        query: {
          limit: pageSize + 1,
          after: after ?? undefined,
          project: value("project"),
          state: value("state"),
          owner: value("owner"),
          q: value("q"),
          label: labels.length > 0 ? labels : undefined,
        },
      },
      signal,
    }),
  );
}
