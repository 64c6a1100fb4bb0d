import { useTranslation } from "react-i18next";
import type { Schemas } from "@/api/client";
import { Badge, Bytes, Num, Seconds, UntrustedText } from "@/ui";
import { cell, number, SlurmTable } from "./SlurmTable";

type Partition = Schemas["SlurmPartition"];

// SlurmPartitions is the table of the partitions of a cluster, with what all of its users run and wait for.
export function SlurmPartitions({ partitions }: { partitions: readonly Partition[] }) {
  const { t } = useTranslation("fleets");
  return (
    <SlurmTable
      title={t("slurm.partitions")}
      empty={partitions.length === 0 ? t("slurm.noPartitions") : null}
      head={[
        { name: t("slurm.partition") },
        { name: t("state") },
        { name: t("nodes"), numeric: true },
        { name: t("slurm.idle"), numeric: true },
        { name: t("slurm.down"), numeric: true },
        { name: t("slurm.gpusUsed"), numeric: true },
        { name: t("slurm.waiting"), numeric: true },
        { name: t("slurm.maxTime"), numeric: true },
        { name: t("slurm.largestNode") },
      ]}
    >
      <tbody className="divide-y">
        {partitions.map((p) => (
          <tr key={p.name}>
            <th scope="row" className={`${cell} font-medium`}>
              <UntrustedText text={p.name} longest={64} />
            </th>
            <td className={cell}>
              <Badge tone={p.state.toLowerCase() === "up" ? "good" : "warn"}>
                <UntrustedText text={p.state} longest={32} />
              </Badge>
            </td>
            <td className={number}>
              <Num value={p.nodes} />
            </td>
            <td className={number}>
              <Num value={p.nodes_idle} />
            </td>
            <td className={p.nodes_down > 0 ? `${number} text-warn` : number}>
              <Num value={p.nodes_down} />
            </td>
            <td className={`${number} tabular`}>{t("freeOf", { free: p.gpus_used, total: p.gpus_total })}</td>
            <td className={number}>
              <Num value={p.jobs_waiting} />
            </td>
            <td className={number}>
              {p.max_time_s > 0 ? (
                <Seconds value={p.max_time_s} />
              ) : (
                <span className="text-soft">{t("slurm.noLimit")}</span>
              )}
            </td>
            <td className={cell}>
              {t("slurm.size", { count: p.gpus_per_node, cpus: p.cpus_per_node })},{" "}
              <Bytes value={p.memory_bytes_per_node} />
            </td>
          </tr>
        ))}
      </tbody>
    </SlurmTable>
  );
}
