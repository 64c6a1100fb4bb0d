import { useQuery } from "@tanstack/react-query";
import { api, call, type Schemas } from "@/api/client";

export type Summary = Schemas["MetricSummary"];

const page = 500;
// A run with more metrics than this shows the first ones.
export const mostKeys = 5000;

// useSummaries reads the newest, lowest and highest values of all metrics of a run, in the order of their keys.
export function useSummaries(id: string, live: boolean) {
  const { data, error, refetch } = useQuery(summariesQuery(id, live));
  return { summaries: data, error, refetch };
}

export function summariesQuery(id: string, live: boolean) {
  return {
    queryKey: ["run", id, "summaries"],
    queryFn: ({ signal }: { signal: AbortSignal }) => readAll(id, signal),
    refetchInterval: live ? 5000 : (false as const),
  };
}

async function readAll(id: string, signal: AbortSignal): Promise<Summary[]> {
  const all: Summary[] = [];
  while (all.length < mostKeys) {
    const rows = await call(
      api.GET("/api/runs/{id}/metrics/summary", {
        params: { path: { id }, query: { limit: page, offset: all.length } },
        signal,
      }),
    );
    all.push(...rows);
    if (rows.length < page) break;
  }
  return all;
}
