import { api, call, type Schemas } from "@/api/client";
import { byKey, usePages } from "@/api/pages";
import type { RunsSearch } from "./filters";

export type Run = Schemas["Run"];

const size = 100;

// useRuns reads the list of runs page by page, all states unless the filters name some.
export function useRuns({ state = "all", ...filters }: RunsSearch & { project?: string }) {
  return usePages(
    ["runs", { state, ...filters }],
    size,
    "",
    async (limit, after, signal) =>
      byKey(
        await call(
          api.GET("/api/runs", { params: { query: { ...filters, state, limit, after: after || undefined } }, signal }),
        ),
        size,
      ),
    { refetchInterval: 15_000 },
  );
}
