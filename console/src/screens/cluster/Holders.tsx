import { useMemo } from "react";
import { useTranslation } from "react-i18next";
import { gpusOf, poolsOf } from "@/screens/jobs/job";
import { NodeCell } from "@/screens/jobs/NodeCell";
import { type Column, Duration, EmptyState, ErrorPanel, Num, StateBadge, Table, UntrustedText } from "@/ui";
import { PathLink } from "@/ui/PathLink";
import { type Job, useHolders } from "./api";

const idOf = (job: Job) => job.id;
const nameOf = (job: Job) => job.name;

// Holders lists the jobs that hold GPUs, the largest first. Jobs that the user may not see are not in it.
export function Holders() {
  const { t } = useTranslation("cluster");
  const columns = useHolderColumns();
  const jobs = useHolders();
  const rows = useMemo(() => [...(jobs.data ?? [])].sort((a, b) => gpusOf(b) - gpusOf(a)), [jobs.data]);
  if (jobs.error && !jobs.data) return <ErrorPanel error={jobs.error} onRetry={() => void jobs.refetch()} />;
  if (jobs.data && rows.length === 0) return <EmptyState title={t("noHolders")} why={t("noHoldersWhy")} docs="/docs" />;
  return (
    <>
      <p className="px-4 py-2 text-xs text-soft md:px-6">{t("holdersNote")}</p>
      <Table
        label={t("view.holders")}
        rows={rows}
        columns={columns}
        rowId={idOf}
        rowName={nameOf}
        pending={jobs.isPending}
      />
    </>
  );
}

function useHolderColumns(): Column<Job>[] {
  const { t } = useTranslation("cluster");
  return useMemo(
    () => [
      { id: "state", header: t("state"), width: "7.5rem", cell: (job) => <StateBadge state={job.state} /> },
      {
        id: "job",
        header: t("job"),
        width: "minmax(11rem,1.4fr)",
        cell: (job) => (
          <PathLink href={`/jobs/${job.id}`} className="font-medium hover:underline">
            <UntrustedText text={job.name} longest={128} />
          </PathLink>
        ),
      },
      {
        id: "owner",
        header: t("owner"),
        width: "minmax(6rem,0.7fr)",
        cell: (job) => <UntrustedText text={job.owner} />,
      },
      {
        id: "pools",
        header: t("pools"),
        width: "minmax(6rem,0.7fr)",
        cell: (job) => <UntrustedText text={poolsOf(job).join(", ")} />,
      },
      { id: "gpus", header: t("gpus"), width: "4.5rem", numeric: true, cell: (job) => <Num value={gpusOf(job)} /> },
      { id: "node", header: t("node"), width: "minmax(9rem,1fr)", cell: (job) => <NodeCell job={job} /> },
      {
        id: "held",
        header: t("held"),
        width: "6.5rem",
        numeric: true,
        cell: (job) => <Duration from={job.starting_at} />,
      },
    ],
    [t],
  );
}
