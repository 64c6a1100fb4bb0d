import { useNavigate } from "@tanstack/react-router";
import { useMemo } from "react";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { byOffset, usePages } from "@/api/pages";
import { visible } from "@/lib/untrusted";
import { heldBySlurm } from "@/screens/jobs/job";
import {
  type Column,
  Duration,
  EmptyState,
  ErrorPanel,
  LoadMore,
  Nothing,
  Num,
  Select,
  Table,
  UntrustedText,
} from "@/ui";
import { PathLink } from "@/ui/PathLink";
import type { Pool, QueueEntry } from "./api";
import { clusterIndex } from "./area";

const size = 100;
const all = "*";
const idOf = (entry: QueueEntry) => entry.job_id ?? `${entry.position}-${entry.since}-${entry.gpus}-${entry.pools}`;

export function Queue({ pools, pool }: { pools: readonly Pool[]; pool: string | undefined }) {
  const { t } = useTranslation("cluster");
  const navigate = useNavigate({ from: clusterIndex.fullPath });
  const columns = useQueueColumns();
  const list = usePages<QueueEntry, number>(
    ["cluster", "queue", pool ?? ""],
    size,
    0,
    async (limit, offset, signal) =>
      byOffset(
        await call(api.GET("/api/cluster/queue", { params: { query: { limit, offset, pool } }, signal })),
        size,
        offset,
      ),
    { refetchInterval: 5_000 },
  );
  const choose = (next: string) =>
    void navigate({ to: ".", search: (s) => ({ ...s, pool: next === all ? undefined : next }) });
  return (
    <>
      <div className="px-4 py-2 md:px-6">
        <Select
          label={t("poolFilter")}
          value={pool ?? all}
          onChange={choose}
          options={[
            { value: all, label: t("allPools") },
            ...pools.map((p) => ({ value: p.pool, label: <UntrustedText text={p.pool} longest={64} /> })),
          ]}
          className="w-48"
        />
      </div>
      {list.error && list.rows.length === 0 ? (
        <ErrorPanel error={list.error} onRetry={list.refetch} />
      ) : !list.pending && list.rows.length === 0 ? (
        <EmptyState title={t("noQueue")} why={t("noQueueWhy")} docs="/docs" />
      ) : (
        <Table
          label={t("view.queue")}
          rows={list.rows}
          columns={columns}
          rowId={idOf}
          pending={list.pending}
          footer={<LoadMore more={list.more} busy={list.loadingMore} onMore={list.loadMore} />}
        />
      )}
    </>
  );
}

// Reason is why a job waits. Slurm's own reason is shown as it is, with its detail.
function Reason({ entry }: { entry: QueueEntry }) {
  const { t } = useTranslation("cluster");
  const detail = entry.reason_detail ?? undefined;
  if (!heldBySlurm(entry.reason)) {
    return <span title={detail}>{t(`why.${entry.reason}`, { defaultValue: entry.reason })}</span>;
  }
  return (
    <span title={detail}>
      {t("slurmReason", { reason: visible(entry.reason, 128).text })}{" "}
      {detail ? <UntrustedText text={detail} longest={300} className="text-soft" /> : null}
    </span>
  );
}

function useQueueColumns(): Column<QueueEntry>[] {
  const { t } = useTranslation("cluster");
  return useMemo(
    () => [
      {
        id: "position",
        header: t("position"),
        width: "5rem",
        numeric: true,
        cell: (entry) => (entry.position > 0 ? <Num value={entry.position} /> : <Nothing />),
      },
      {
        id: "job",
        header: t("job"),
        width: "minmax(11rem,1.3fr)",
        cell: (entry) =>
          entry.job_id ? (
            <PathLink href={`/jobs/${entry.job_id}`} className="font-medium hover:underline">
              <UntrustedText text={entry.name ?? entry.job_id} longest={128} />
            </PathLink>
          ) : (
            <span className="text-soft">{t("hiddenJob")}</span>
          ),
      },
      {
        id: "pools",
        header: t("pools"),
        width: "minmax(7rem,0.8fr)",
        cell: (entry) => <UntrustedText text={entry.pools.join(", ")} />,
      },
      { id: "nodes", header: t("nodes"), width: "4.5rem", numeric: true, cell: (entry) => <Num value={entry.nodes} /> },
      { id: "gpus", header: t("gpus"), width: "4.5rem", numeric: true, cell: (entry) => <Num value={entry.gpus} /> },
      {
        id: "priority",
        header: t("priority"),
        width: "5rem",
        numeric: true,
        cell: (entry) => <Num value={entry.priority} />,
      },
      {
        id: "reason",
        header: t("reason"),
        width: "minmax(14rem,2fr)",
        cell: (entry) => <Reason entry={entry} />,
      },
      {
        id: "since",
        header: t("waiting"),
        width: "6rem",
        numeric: true,
        cell: (entry) => <Duration from={entry.since} />,
      },
    ],
    [t],
  );
}
