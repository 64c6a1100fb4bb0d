import { type QueryClient, useQuery } from "@tanstack/react-query";
import { api, call, type Schemas } from "@/api/client";
import { readAll } from "./read-all";

export type Summary = Schemas["MetricSummary"];

const page = 500;
// A run with more metrics than this shows the first ones.
export const mostKeys = 5000;

const allKey = (id: string) => ["run", id, "summaries"];
const firstKey = (id: string) => ["run", id, "summaries", "first"];

// useSummaries reads the newest, lowest and highest values of all metrics of a run, in the order of their keys.
export function useSummaries(id: string, live: boolean) {
  const { data, error, refetch } = useQuery(summariesQuery(id, live));
  return { summaries: data, error, refetch };
}

// useFirstSummaries returns the first page of the summaries, which is there before the others. It reads nothing.
export function useFirstSummaries(id: string): readonly Summary[] | undefined {
  return useQuery<readonly Summary[]>({ queryKey: firstKey(id), enabled: false }).data;
}

type Context = { signal: AbortSignal; client: QueryClient };

export function summariesQuery(id: string, live: boolean) {
  return {
    queryKey: allKey(id),
    queryFn: ({ signal, client }: Context) =>
      readAll(
        async (offset) => {
          const rows = await call(
            api.GET("/api/runs/{id}/metrics/summary", {
              params: { path: { id }, query: { limit: page, offset } },
              signal,
            }),
          );
          if (offset === 0 && client.getQueryData(allKey(id)) === undefined) client.setQueryData(firstKey(id), rows);
          return rows;
        },
        page,
        mostKeys,
      ),
    refetchInterval: live ? 5000 : (false as const),
  };
}
