import { useQuery } from "@tanstack/react-query";
import { api, call } from "@/api/client";
import { Batch, type SeriesRequest } from "./batch";

const batch = new Batch(
  (id, keys, request) =>
    call(
      api.GET("/api/runs/{id}/series", {
        params: { path: { id }, query: { keys, limit: keys.length, ...request } },
      }),
    ),
  (task) => setTimeout(task, 10),
);

// seriesQuery reads one series of a run. every is the time in milliseconds after which it is read again.
export function seriesQuery(id: string, key: string, request: SeriesRequest, every: number | false) {
  return {
    queryKey: ["run", id, "series", key, request] as const,
    queryFn: () => batch.load(id, key, request),
    refetchInterval: every,
    staleTime: every === false ? 5 * 60_000 : 1000,
  };
}

export function useSeries(id: string, key: string, request: SeriesRequest, enabled: boolean, every: number | false) {
  return useQuery({
    ...seriesQuery(id, key, request, every),
    enabled,
    // While the window changes, the chart shows what it had. Buckets of another axis would be misread.
    placeholderData: (before, query) => (query?.queryKey[4].x === request.x ? before : undefined),
  });
}
