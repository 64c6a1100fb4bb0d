import { useNavigate } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { EmptyState, ErrorPanel, PageHeader, SkeletonLines } from "@/ui";
import { ViewTabs } from "@/ui/ViewTabs";
import { useCluster, useNodes } from "./api";
import { clusterIndex, type View, views } from "./area";
import { Figures } from "./Figures";
import { Heatmap } from "./Heatmap";
import { Holders } from "./Holders";
import { NodesTable } from "./NodesTable";
import { Pools } from "./Pools";
import { Queue } from "./Queue";

export function ClusterScreen() {
  const { t } = useTranslation("cluster");
  const { view = "map", pool } = clusterIndex.useSearch();
  const navigate = useNavigate({ from: clusterIndex.fullPath });
  const cluster = useCluster();
  const show = (next: View) =>
    void navigate({ to: ".", search: (s) => ({ ...s, view: next === "map" ? undefined : next }) });
  if (cluster.error && !cluster.data) {
    return <ErrorPanel error={cluster.error} onRetry={() => void cluster.refetch()} />;
  }
  return (
    <>
      <PageHeader name={t("title")} />
      <Figures cluster={cluster.data} />
      <ViewTabs
        label={t("views")}
        value={view}
        onChange={show}
        views={views.map((value) => ({ value, label: t(`view.${value}`) }))}
      />
      {view === "map" || view === "nodes" ? <Nodes view={view} /> : null}
      {view === "queue" ? <Queue pools={cluster.data?.pools ?? []} pool={pool} /> : null}
      {view === "holders" ? <Holders /> : null}
      {view === "pools" ? <Pools pools={cluster.data?.pools ?? []} pending={cluster.isPending} /> : null}
    </>
  );
}

function Nodes({ view }: { view: "map" | "nodes" }) {
  const { t } = useTranslation("cluster");
  const navigate = useNavigate();
  const nodes = useNodes();
  const open = (node: { id: string }) => void navigate({ to: "/cluster/nodes/$id", params: { id: node.id } });
  if (nodes.error && !nodes.data) return <ErrorPanel error={nodes.error} onRetry={() => void nodes.refetch()} />;
  if (nodes.data?.length === 0) {
    return <EmptyState title={t("noNodes")} why={t("noNodesWhy")} docs="/docs" />;
  }
  if (view === "nodes") return <NodesTable nodes={nodes.data ?? []} pending={nodes.isPending} onOpen={open} />;
  return (
    <div className="px-4 pt-4 pb-8 md:px-6">
      {nodes.data ? <Heatmap nodes={nodes.data} onOpen={open} /> : <SkeletonLines lines={5} />}
    </div>
  );
}
