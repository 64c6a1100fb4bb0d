import { useCallback, useMemo, useState, useSyncExternalStore } from "react";
import type { Schemas } from "@/api/client";
import type { StreamState } from "@/api/stream";
import { rankOfMetrics, useEventStream } from "@/api/use-event-stream";
import type { LivePoint } from "./curve";
import { LivePoints } from "./live";
import type { Summary } from "./summaries";

// The stream begins with the first point of a run. Above this number of points, charts are read again instead.
const streamed = 20_000;

export type Live = { points: LivePoints; every: number | false; state: StreamState };

// useLive follows the metrics of a run that still reports.
export function useLive(id: string, live: boolean, summaries: readonly Summary[] | undefined): Live {
  const points = useMemo(() => new LivePoints((task) => setTimeout(task, 250)), []);
  // The first response decides, so that a run does not change its way.
  const [small, setSmall] = useState<boolean | null>(null);
  if (summaries && small === null) setSmall(summaries.reduce((sum, s) => sum + s.count, 0) <= streamed);
  const onEvent = useCallback(
    ({ event, data }: { event: string; data: unknown }) => {
      if (event === "batch") points.add((data as Schemas["MetricBatch"]).points);
    },
    [points],
  );
  const url = live && small ? `/api/jobs/${encodeURIComponent(id)}/metrics/stream?after=0` : null;
  const { state } = useEventStream(url, rankOfMetrics, onEvent);
  const broken = state === "failed" || state === "waiting";
  const every = !live ? false : small && !broken ? 15_000 : 1500;
  const shown = url ? state : "ended";
  return useMemo(() => ({ points, every, state: shown }), [points, every, shown]);
}

export function useLivePoints(live: LivePoints, key: string): readonly LivePoint[] {
  return useSyncExternalStore(
    useCallback((tell) => live.subscribe(key, tell), [live, key]),
    () => live.get(key),
  );
}
