import { useCallback, useEffect, useMemo, useReducer, useRef, useState } from "react";
import type { Schemas } from "@/api/client";
import { read } from "@/api/read";
import type { StreamEvent, StreamState } from "@/api/stream";
import { rankOfLog, useEventStream } from "@/api/use-event-stream";
import type { Lines } from "./lines";
import { type LogLine, LogStore, pageSize } from "./store";

export type Log = Lines & {
  // ready means that the end of the log has been read.
  ready: boolean;
  error: unknown;
  retry: () => void;
  stream: StreamState;
  // complete means that no line will follow.
  complete: boolean;
  // partial are the lines that are not finished yet, such as a progress bar.
  partial: readonly LogLine[];
};

// A page that was passed by fast scrolling is not read.
const settle = 40;

// useLog reads the end of a log, follows it, and reads the pages that are looked at.
export function useLog(runId: string): Log {
  const path = `/api/runs/${encodeURIComponent(runId)}/logs`;
  // biome-ignore lint/correctness/useExhaustiveDependencies: another run has another log
  const store = useMemo(() => new LogStore(), [path]);
  const [version, changed] = useReducer((n: number) => n + 1, 0);
  const [from, setFrom] = useState<number | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [complete, setComplete] = useState(false);
  const [partial, setPartial] = useState<readonly LogLine[]>([]);
  const [attempt, retry] = useReducer((n: number) => n + 1, 0);

  // biome-ignore lint/correctness/useExhaustiveDependencies: a new attempt reads again
  useEffect(() => {
    const stop = new AbortController();
    setFrom(null);
    setComplete(false);
    setPartial([]);
    setError(null);
    read<LogLine[]>(path, { tail: true, limit: pageSize }, stop.signal).then(
      (lines) => {
        store.put(lines);
        setFrom(store.last);
      },
      (thrown) => stop.signal.aborted || setError(thrown),
    );
    return () => stop.abort();
  }, [path, store, attempt]);

  const put = useFrames(store, changed);
  const { state, error: lost } = useEventStream(
    from === null ? null : `${path}/stream?after=${from}`,
    rankOfLog,
    useCallback(
      (event: StreamEvent) => {
        if (event.event === "line") put(event.data as LogLine);
        if (event.event === "partial") setPartial((event.data as Schemas["PartialLines"]).lines);
        if (event.event === "eof") setComplete(true);
      },
      [put],
    ),
  );
  // A stream that is opened again sends the unfinished lines, but nothing if there are none any more.
  useEffect(() => {
    if (state !== "open") setPartial([]);
  }, [state]);
  const need = usePageReader(path, store, changed, setError);
  return {
    version,
    count: store.last,
    at: (index) => store.line(index + 1),
    indexOf: (seq) => Math.min(seq, store.last) - 1,
    need,
    ready: from !== null,
    error: error ?? (state === "failed" ? lost : null),
    retry,
    stream: from === null ? "connecting" : state,
    complete,
    partial,
  };
}

// useFrames collects the lines of a stream, and shows them once a frame.
function useFrames(store: LogStore, changed: () => void): (line: LogLine) => void {
  const waiting = useRef<LogLine[]>([]);
  const frame = useRef(0);
  // biome-ignore lint/correctness/useExhaustiveDependencies: lines of another log are dropped
  useEffect(
    () => () => {
      cancelAnimationFrame(frame.current);
      frame.current = 0;
      waiting.current = [];
    },
    [store],
  );
  return useCallback(
    (line) => {
      waiting.current.push(line);
      frame.current ||= requestAnimationFrame(() => {
        frame.current = 0;
        store.put(waiting.current.splice(0));
        changed();
      });
    },
    [store, changed],
  );
}

function usePageReader(path: string, store: LogStore, changed: () => void, failed: (error: unknown) => void) {
  const reading = useRef(new Map<number, AbortController>());
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  // biome-ignore lint/correctness/useExhaustiveDependencies: pages of another log are not wanted
  useEffect(
    () => () => {
      clearTimeout(timer.current);
      for (const stop of reading.current.values()) stop.abort();
      reading.current.clear();
    },
    [path],
  );
  return useCallback(
    (first: number, last: number) => {
      clearTimeout(timer.current);
      const wanted = store.missing(first + 1, last + 1);
      for (const [page, stop] of reading.current) if (!wanted.includes(page)) stop.abort();
      if (wanted.length === 0) return;
      timer.current = setTimeout(() => {
        for (const page of wanted) {
          if (reading.current.has(page)) continue;
          const stop = new AbortController();
          reading.current.set(page, stop);
          read<LogLine[]>(path, { after: page * pageSize, limit: pageSize }, stop.signal)
            .then((lines) => {
              store.put(lines);
              failed(null);
              changed();
            })
            .catch((error) => stop.signal.aborted || failed(error))
            .finally(() => {
              if (reading.current.get(page) === stop) reading.current.delete(page);
            });
        }
      }, settle);
    },
    [path, store, changed, failed],
  );
}
