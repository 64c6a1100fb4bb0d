import { useState } from "react";
import { useTranslation } from "react-i18next";
import { session } from "@/auth/browser";
import { useCluster } from "@/screens/cluster/api";
import { ErrorNote, PageBody, SkeletonLines, Time, UntrustedText } from "@/ui";
import { Fact, FactList } from "@/ui/FactList";
import type { Fleet } from "./api";
import { SlurmDialog } from "./SlurmDialog";
import { SlurmHeld } from "./SlurmHeld";
import { SlurmPartitions } from "./SlurmPartitions";
import { SlurmPools } from "./SlurmPools";
import { type SlurmRow, slurmRows } from "./slurm";

// SlurmView shows the cluster of a Slurm fleet, as its agent reported it: partitions, pools with their tests, and the jobs
// that Slurm holds.
export function SlurmView({ fleet }: { fleet: Fleet }) {
  const { t } = useTranslation("fleets");
  const cluster = useCluster();
  const [editing, setEditing] = useState<SlurmRow | null>(null);
  const report = fleet.slurm;
  const rows = slurmRows(fleet, cluster.data?.pools ?? []);
  return (
    <div className="scroll-thin min-h-0 flex-1 overflow-y-auto pt-4">
      <PageBody>
        {report ? (
          <FactList>
            <Fact label={t("slurm.version")}>
              <UntrustedText text={report.version} longest={64} />
            </Fact>
            <Fact label={t("slurm.reported")}>
              <Time at={fleet.last_seen_at} />
            </Fact>
            {report.problem ? (
              <Fact label={t("slurm.problem")} wide>
                <UntrustedText text={report.problem} longest={1024} className="font-mono text-xs text-bad" />
              </Fact>
            ) : null}
          </FactList>
        ) : (
          <p className="text-sm text-soft">{t("slurm.noReport")}</p>
        )}
        {report ? <SlurmPartitions partitions={report.partitions} /> : null}
        {cluster.error && !cluster.data ? <ErrorNote error={cluster.error} /> : null}
        {cluster.isPending ? <SkeletonLines lines={3} /> : null}
        {cluster.data ? (
          <SlurmPools rows={rows} onEdit={session.user?.role === "admin" ? setEditing : undefined} />
        ) : null}
        <SlurmHeld pools={fleet.pools} />
      </PageBody>
      {editing ? <SlurmDialog row={editing} onClose={() => setEditing(null)} /> : null}
    </div>
  );
}
