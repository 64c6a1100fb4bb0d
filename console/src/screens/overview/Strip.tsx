import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { ErrorNote, Meter, Num, Skeleton } from "@/ui";

const every = 10_000;

// Strip shows how many GPUs are left for the user and in the whole installation.
export function Strip() {
  const { t } = useTranslation("overview");
  const quota = useQuery({
    queryKey: ["quota"],
    queryFn: ({ signal }) => call(api.GET("/api/quota", { signal })),
    refetchInterval: every,
  });
  const cluster = useQuery({
    queryKey: ["cluster"],
    queryFn: ({ signal }) => call(api.GET("/api/cluster", { signal })),
    refetchInterval: every,
  });
  const error = quota.error ?? cluster.error;
  if (error && !quota.data && !cluster.data) return <ErrorNote error={error} />;
  const q = quota.data;
  const c = cluster.data;
  const ready = c?.nodes_by_state.ready ?? 0;
  return (
    <dl className="grid grid-cols-2 overflow-hidden rounded-lg border bg-card lg:grid-cols-4">
      <Figure
        label={t("quota")}
        note={q ? t("quotaNote", { held: q.gpu_held, limit: q.gpu_limit }) : null}
        value={q?.gpu_available}
      >
        {q ? (
          <Meter
            value={q.gpu_held}
            max={q.gpu_limit}
            label={t("quotaMeter")}
            tone={q.gpu_available === 0 ? "warn" : "accent"}
          />
        ) : null}
      </Figure>
      <Figure label={t("freeGpus")} note={c ? t("freeNote", { total: c.gpus_total }) : null} value={c?.gpus_free}>
        {c ? <Meter value={c.gpus_total - c.gpus_free} max={c.gpus_total} label={t("freeMeter")} /> : null}
      </Figure>
      <Figure label={t("nodes")} note={c ? t("nodesNote", { total: c.nodes }) : null} value={c ? ready : undefined}>
        {c ? <Meter value={ready} max={c.nodes} label={t("nodes")} tone={ready < c.nodes ? "warn" : "accent"} /> : null}
      </Figure>
      <Figure label={t("queued")} note={c ? t("placed", { count: c.jobs_placed }) : null} value={c?.jobs_queued} />
    </dl>
  );
}

type FigureProps = { label: string; value: number | undefined; note: string | null; children?: ReactNode };

function Figure({ label, value, note, children }: FigureProps) {
  return (
    <div className="-mt-px -ml-px grid content-start gap-1 border-t border-l px-4 py-3">
      <dt className="text-xs text-soft">{label}</dt>
      <dd className="grid gap-1.5">
        <span className="flex min-h-7 items-baseline gap-2">
          {value === undefined ? (
            <Skeleton className="h-5 w-10" />
          ) : (
            <span className="text-xl font-semibold">
              <Num value={value} />
            </span>
          )}
          <span className="truncate text-xs text-soft">{note}</span>
        </span>
        {children}
      </dd>
    </div>
  );
}
