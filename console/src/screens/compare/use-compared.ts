import { useQueries } from "@tanstack/react-query";
import { useMemo } from "react";
import { api, call, type Schemas } from "@/api/client";
import { type Ink, inks } from "@/screens/job/charts/colors";
import { type Summary, summariesQuery } from "@/screens/job/charts/summaries";
import { useLastReads } from "@/screens/job/last-reads";
import { record } from "@/screens/job/overview/Hparams";
import { useTheme } from "@/theme/theme";
import { useSame } from "./use-same";

export type Run = Schemas["Run"];
export type Compared = {
  id: string;
  run: Run;
  ink: Ink;
  live: boolean;
  params: Record<string, unknown>;
  summaries: Map<string, Summary>;
};

const over = ["succeeded", "failed", "stopped"];
const every = 10_000;

// useCompared reads the runs of a comparison. Those that cannot be read are in failed.
export function useCompared(ids: readonly string[]) {
  const { shown } = useTheme();
  const runs = useQueries({
    queries: ids.map((id) => ({
      queryKey: ["run", id],
      queryFn: ({ signal }: { signal: AbortSignal }) =>
        call(api.GET("/api/runs/{run_id}", { params: { path: { run_id: id } }, signal })),
      refetchInterval: every,
    })),
  });
  const params = useQueries({
    queries: ids.map((id) => ({
      queryKey: ["run", id, "hparams"],
      queryFn: ({ signal }: { signal: AbortSignal }) =>
        call(api.GET("/api/runs/{id}/hparams", { params: { path: { id } }, signal })),
    })),
  });
  const summaries = useQueries({
    queries: ids.map((id, at) => summariesQuery(id, !over.includes(runs[at]?.data?.state ?? "succeeded"))),
  });
  const compared = ids.flatMap((id, at) => {
    const run = runs[at]?.data;
    return run ? [{ id, run, params: params[at]?.data?.params, summaries: summaries[at]?.data }] : [];
  });
  const state = useSame(compared.flatMap((c) => [c.run, c.params, c.summaries]));
  // biome-ignore lint/correctness/useExhaustiveDependencies: state has all that the result is made of
  const rows = useMemo(() => {
    const colors = inks(
      compared.map((c) => c.id),
      shown,
    );
    return compared.map(
      (c): Compared => ({
        id: c.id,
        run: c.run,
        ink: colors.get(c.id) ?? { color: "currentColor" },
        live: !over.includes(c.run.state),
        params: record(c.params),
        summaries: new Map((c.summaries ?? []).map((s) => [s.key, s])),
      }),
    );
  }, [shown, state]);
  useLastReads(rows.filter((run) => run.live).map((run) => run.id));
  const failed = ids.flatMap((id, at) => (runs[at]?.error && !runs[at]?.data ? [{ id, error: runs[at].error }] : []));
  const pending = runs.some((r) => r.isPending) || summaries.some((s) => s.isPending);
  return { rows, failed, pending };
}
