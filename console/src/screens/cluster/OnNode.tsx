import { useQueries } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { gpusOf } from "@/screens/jobs/job";
import { StateBadge, UntrustedText } from "@/ui";
import { PathLink } from "@/ui/PathLink";
import { type Node, useHolders } from "./api";

// The API does not list the works of a node, so this looks through the newest attempts of at most this many jobs.
const mostJobs = 40;

export function OnNode({ node }: { node: Node }) {
  const { t } = useTranslation("cluster");
  const holders = useHolders();
  const jobs = (holders.data ?? []).filter((job) => job.attempt > 0).slice(0, mostJobs);
  const attempts = useQueries({
    queries: jobs.map((job) => ({
      queryKey: ["jobs", job.id, "attempt", job.attempt],
      queryFn: ({ signal }: { signal: AbortSignal }) =>
        call(
          api.GET("/api/jobs/{job_id}/attempts", {
            params: { path: { job_id: job.id }, query: { limit: 500 } },
            signal,
          }),
        ),
      staleTime: 60_000,
      enabled: node.works > 0,
    })),
  });
  const here = jobs.filter((job, at) =>
    attempts[at]?.data?.some((a) => a.number === job.attempt && a.node_id === node.id),
  );
  const others = Math.max(0, node.works - here.length);
  return (
    <section aria-label={t("onNode")} className="grid gap-2">
      <h2 className="text-sm font-semibold">{t("onNode")}</h2>
      <div className="rounded-lg border bg-card">
        {here.length > 0 ? (
          <ul className="divide-y">
            {here.map((job) => (
              <li key={job.id} className="flex min-h-9 flex-wrap items-center gap-x-4 px-4 py-1 text-sm">
                <span className="w-28">
                  <StateBadge state={job.state} />
                </span>
                <PathLink href={`/jobs/${job.id}`} className="min-w-0 flex-1 truncate font-medium hover:underline">
                  <UntrustedText text={job.name} longest={128} />
                </PathLink>
                <UntrustedText text={job.owner} className="text-soft" />
                <span className="w-20 text-right tabular">{t("gpuCount", { count: gpusOf(job) })}</span>
              </li>
            ))}
          </ul>
        ) : null}
        {others > 0 || here.length === 0 ? (
          <p className="px-4 py-2 text-sm text-soft">
            {node.works === 0 ? t("nothingOnNode") : t("othersOnNode", { count: others })}
          </p>
        ) : null}
      </div>
    </section>
  );
}
