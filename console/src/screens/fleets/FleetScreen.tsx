import { useNavigate } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { session } from "@/auth/browser";
import { visible } from "@/lib/untrusted";
import { Audited } from "@/screens/cluster/Audited";
import { useNodes } from "@/screens/cluster/api";
import { NodesTable } from "@/screens/cluster/NodesTable";
import { EmptyState, ErrorPanel, Nothing, PageHeader, SkeletonLines, StateBadge, Time, UntrustedText } from "@/ui";
import { Fact, FactList, IdText } from "@/ui/FactList";
import { ViewTabs } from "@/ui/ViewTabs";
import { type Fleet, useFleet, versionsOf } from "./api";
import { fleetRoute, fleetViews } from "./area";
import { FleetActions } from "./FleetActions";
import { JoinTokens } from "./JoinTokens";
import { SlurmView } from "./SlurmView";

export function FleetScreen() {
  const { id } = fleetRoute.useParams();
  const search = fleetRoute.useSearch();
  const { t } = useTranslation("fleets");
  const navigate = useNavigate({ from: fleetRoute.fullPath });
  const { data: fleet, error, refetch } = useFleet(id);
  if (!fleet) {
    if (error) return <ErrorPanel error={error} onRetry={() => void refetch()} />;
    return <SkeletonLines lines={6} className="max-w-2xl p-6" />;
  }
  const admin = session.user?.role === "admin";
  const slurm = fleet.kind === "slurm";
  const views = fleetViews.filter((v) => (v === "slurm" ? slurm : v === "nodes" || admin));
  const view = views.find((v) => v === search.view) ?? (slurm ? "slurm" : "nodes");
  return (
    <>
      <PageHeader
        name={visible(fleet.name, 128).text}
        lead={<StateBadge state={fleet.state} />}
        actions={admin ? <FleetActions fleet={fleet} onRemoved={() => void navigate({ to: "/fleets" })} /> : null}
      />
      <div className="px-4 pb-4 md:px-6">
        <Facts fleet={fleet} />
      </div>
      {views.length > 1 ? (
        <ViewTabs
          label={t("views")}
          value={view}
          onChange={(next) => void navigate({ to: ".", search: (s) => ({ ...s, view: next }) })}
          views={views.map((value) => ({ value, label: t(`view.${value}`) }))}
        />
      ) : null}
      {view === "slurm" ? (
        <SlurmView fleet={fleet} />
      ) : view === "tokens" ? (
        <JoinTokens fleet={fleet} />
      ) : view === "events" ? (
        <div className="px-4 py-4 md:px-6">
          <Audited kind="fleet" id={fleet.id} />
        </div>
      ) : (
        <FleetNodes fleet={fleet} />
      )}
    </>
  );
}

function Facts({ fleet }: { fleet: Fleet }) {
  const { t } = useTranslation("fleets");
  const nodes = useNodes();
  const versions = versionsOf((nodes.data ?? []).filter((node) => node.fleet_id === fleet.id && node.version !== ""));
  return (
    <FactList>
      <Fact label={t("pools")}>
        <UntrustedText text={fleet.pools.join(", ")} />
      </Fact>
      <Fact label={t("kind")}>{t(`kinds.${fleet.kind}`, { defaultValue: fleet.kind })}</Fact>
      <Fact label={t("gpusFree")}>{t("freeOf", { free: fleet.gpus_free, total: fleet.gpus_total })}</Fact>
      <Fact label={t("versions")}>
        {versions.length === 0 ? <Nothing /> : null}
        {versions.slice(0, 5).map(([version, count]) => (
          <span key={version} className="mr-2 font-mono text-xs">
            {version} <span className="text-soft">× {count}</span>
          </span>
        ))}
      </Fact>
      <Fact label={t("created")}>
        <Time at={fleet.created_at} />
      </Fact>
      <Fact label={t("seen")}>
        <Time at={fleet.last_seen_at} />
      </Fact>
      <Fact label={t("id")} wide>
        <IdText id={fleet.id} />
      </Fact>
    </FactList>
  );
}

function FleetNodes({ fleet }: { fleet: Fleet }) {
  const { t } = useTranslation("fleets");
  const navigate = useNavigate();
  const nodes = useNodes();
  const rows = (nodes.data ?? []).filter((node) => node.fleet_id === fleet.id);
  if (nodes.error && !nodes.data) return <ErrorPanel error={nodes.error} onRetry={() => void nodes.refetch()} />;
  if (nodes.data && rows.length === 0) return <EmptyState title={t("noNodes")} why={t("noNodesWhy")} docs="/docs" />;
  return (
    <NodesTable
      nodes={rows}
      pending={nodes.isPending}
      onOpen={(node) => void navigate({ to: "/cluster/nodes/$id", params: { id: node.id } })}
    />
  );
}
