import { useQueries, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { api, call } from "@/api/client";
import { type Series, toCurve } from "@/screens/job/charts/curve";
import type { Line } from "@/screens/job/charts/plot-data";
import { seriesQuery } from "@/screens/job/charts/series";
import { axisOf, type ChartView, toWindow } from "@/screens/job/charts/view";
import type { Compared } from "./use-compared";
import { useSame } from "./use-same";

const every = 2000;
const everyTogether = 5000;
// More runs than this are read with one request, whose buckets have the same bounds in all runs.
const few = 5;
// The API returns at most this many buckets of all runs together.
const mostBuckets = 20_000;

// useLines returns the lines of a metric, one for each run that has it.
export function useLines(name: string, runs: readonly Compared[], view: ChartView, points: number) {
  const { x = "step" } = view;
  const having = runs.filter((run) => run.summaries.has(name));
  // The request for several runs has no window, and its buckets of time would be those of the whole time of all runs.
  const together = having.length > few && x === "step" && view.from === undefined;
  const one = useTogether(name, together ? having : [], points);
  const each = useQueries({
    queries: (together ? [] : having).map((run) => {
      const request = { points, x: axisOf(view), ...toWindow(view, originOf(run)) };
      return seriesQuery(run.id, name, request, run.live ? every : false);
    }),
  });
  const data = together ? having.map((run) => one.data?.get(run.run.id)) : each.map((result) => result.data);
  const state = useSame([...data, ...having.map((run) => run.ink), ...having.map((run) => run.id)]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: state and x are all that the lines are made of
  const lines = useMemo(
    () =>
      having.flatMap((run, at): Line[] => {
        const series = data[at];
        if (!series) return [];
        return [{ id: run.id, name: run.run.name, ...run.ink, curve: toCurve(series, [], x, originOf(run)) }];
      }),
    [x, state],
  );
  return { lines, error: one.error ?? each.find((result) => result.error)?.error };
}

// useTogether reads the series of many runs with one request. The result has them by the ids of the runs.
function useTogether(name: string, runs: readonly Compared[], points: number) {
  const ids = runs.map((run) => run.run.id);
  return useQuery({
    queryKey: ["compare", "series", name, points, ids],
    queryFn: async ({ signal }) => {
      const most = Math.max(1, Math.min(points, Math.floor(mostBuckets / ids.length)));
      const body = { run_ids: ids, keys: [name], points: most, x: "step" as const, bands: false };
      const { metrics } = await call(api.POST("/api/runs/compare", { body, signal }));
      const found = new Map<string, Series>();
      for (const { run_id, series } of metrics[0]?.runs ?? []) if (series) found.set(run_id, series);
      return found;
    },
    enabled: ids.length > 0,
    refetchInterval: runs.some((run) => run.live) ? everyTogether : false,
    staleTime: everyTogether,
  });
}

function originOf({ run }: Compared): number {
  return Date.parse(run.started_at ?? run.created_at);
}
