import { useMemo } from "react";
import { useTranslation } from "react-i18next";
import { Badge, type Column, EmptyState, Nothing, Num, Table, UntrustedText } from "@/ui";
import type { Pool } from "./api";

// usualProcesses is the limit in pools without a setting of their own.
const usualProcesses = 4096;

const idOf = (pool: Pool) => pool.pool;

export function Pools({ pools, pending }: { pools: readonly Pool[]; pending: boolean }) {
  const { t } = useTranslation("cluster");
  const columns = usePoolColumns();
  if (!pending && pools.length === 0) return <EmptyState title={t("noPools")} why={t("noNodesWhy")} docs="/docs" />;
  return <Table label={t("view.pools")} rows={pools} columns={columns} rowId={idOf} pending={pending} />;
}

function usePoolColumns(): Column<Pool>[] {
  const { t } = useTranslation("cluster");
  return useMemo(
    () => [
      {
        id: "pool",
        header: t("pool"),
        width: "minmax(10rem,1.4fr)",
        cell: (p) => <UntrustedText text={p.pool} longest={128} className="font-medium" />,
      },
      {
        id: "gpus",
        header: t("gpusFree"),
        width: "7rem",
        numeric: true,
        cell: (p) => t("freeOf", { free: p.gpus_free, total: p.gpus_total }),
      },
      {
        id: "nodes",
        header: t("readyNodes"),
        width: "7rem",
        numeric: true,
        cell: (p) => t("freeOf", { free: p.nodes_ready, total: p.nodes }),
      },
      {
        id: "permitted",
        header: t("permitted"),
        width: "7rem",
        numeric: true,
        cell: (p) => <Num value={p.nodes_permitted} />,
      },
      {
        id: "queued",
        header: t("queuedJobs"),
        width: "7rem",
        numeric: true,
        cell: (p) => <Num value={p.jobs_queued} />,
      },
      {
        id: "isolation",
        header: t("isolation"),
        width: "minmax(8rem,1fr)",
        cell: (p) => (
          <Badge tone={p.isolation === "none" ? "warn" : "neutral"}>
            {t(`isolations.${p.isolation}`, { defaultValue: p.isolation })}
          </Badge>
        ),
      },
      {
        id: "memory",
        header: t("defaultMemory"),
        width: "7rem",
        numeric: true,
        cell: (p) => (p.default_memory_gb > 0 ? t("memoryGb", { gb: p.default_memory_gb }) : <Nothing />),
      },
      {
        id: "processes",
        header: t("defaultProcesses"),
        width: "7rem",
        numeric: true,
        cell: (p) => <Num value={p.default_processes || usualProcesses} />,
      },
      {
        id: "slurm",
        header: t("slurm"),
        width: "minmax(7rem,0.8fr)",
        cell: (p) => (p.slurm ? <UntrustedText text={p.slurm.partition} longest={64} /> : <Nothing />),
      },
      {
        id: "silence",
        header: t("silence"),
        width: "minmax(8rem,1fr)",
        cell: (p) => t(`silences.${p.on_silence}`, { defaultValue: p.on_silence }),
      },
    ],
    [t],
  );
}
