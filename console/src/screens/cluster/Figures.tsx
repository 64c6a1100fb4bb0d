import { useTranslation } from "react-i18next";
import type { Schemas } from "@/api/client";
import { Num, Skeleton } from "@/ui";

// Figures sums up the cluster in one line.
export function Figures({ cluster }: { cluster: Schemas["Cluster"] | undefined }) {
  const { t } = useTranslation("cluster");
  const c = cluster;
  const ready = c?.nodes_by_state.ready ?? 0;
  const figures: [string, number | undefined, string | null][] = [
    [t("freeGpus"), c?.gpus_free, c ? t("ofGpus", { count: c.gpus_total }) : null],
    [t("readyNodes"), c ? ready : undefined, c ? t("ofNodes", { count: c.nodes }) : null],
    [t("lostGpus"), c?.gpus_unhealthy, null],
    [t("placedJobs"), c?.jobs_placed, null],
    [t("queuedJobs"), c?.jobs_queued, null],
  ];
  return (
    <dl className="flex flex-wrap gap-x-8 gap-y-2 px-4 pb-3 md:px-6">
      {figures.map(([label, value, note]) => (
        <div key={label}>
          <dt className="text-xs text-soft">{label}</dt>
          <dd className="flex h-6 items-baseline gap-1.5">
            {value === undefined ? (
              <Skeleton className="mt-1 h-4 w-8" />
            ) : (
              <span className="text-lg font-semibold">
                <Num value={value} />
              </span>
            )}
            {note ? <span className="text-xs text-soft">{note}</span> : null}
          </dd>
        </div>
      ))}
    </dl>
  );
}
