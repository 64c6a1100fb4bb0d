import { api, call, type Schemas } from "@/api/client";
import { toApiError } from "@/api/error";
import { byKey, usePages } from "@/api/pages";
import { type LiveList, useLiveList } from "@/api/use-live-list";
import { type RunsQuery, toQuery } from "./filters";

export type Run = Schemas["Run"];

const size = 100;

// useRuns reads the list of runs page by page, all states unless the filters name some. It is kept up to date by the stream
// of the same filters. A list with another order than by time of creation is read again now and then instead.
export function useRuns({ sort, ...filters }: RunsQuery): LiveList<Run> {
  const { state = "all" } = filters;
  const live = sort === undefined || sort === "created_at";
  const streamed = useLiveList<Run>({
    url: live ? `/api/runs/stream?${toQuery(filters)}` : null,
    event: "run",
    read: (limit, after, signal) =>
      call(api.GET("/api/runs", { params: { query: { ...filters, state, limit, after } }, signal })),
  });
  const sorted = usePages(
    ["runs", { state, sort, ...filters }],
    size,
    "",
    async (limit, after, signal) => {
      const query = { ...filters, state, sort, limit, after: after || undefined };
      return byKey(await call(api.GET("/api/runs", { params: { query }, signal })), size);
    },
    { refetchInterval: 15_000, enabled: !live },
  );
  if (live) return streamed;
  return {
    ...sorted,
    error: sorted.error && toApiError(sorted.error),
    // The notice of all pages shows it.
    stale: null,
    stream: "ended",
    retry: sorted.refetch,
    put: () => sorted.refetch(),
  };
}
