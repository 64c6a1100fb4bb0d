import { Link, useNavigate } from "@tanstack/react-router";
import { Plus } from "lucide-react";
import { useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { byOffset, usePages } from "@/api/pages";
import { session } from "@/auth/browser";
import { firstFleetCommand } from "@/lib/commands";
import {
  Badge,
  Button,
  type Column,
  EmptyState,
  ErrorPanel,
  LoadMore,
  Num,
  PageHeader,
  StateBadge,
  Table,
  Time,
  UntrustedText,
} from "@/ui";
import { every, type Fleet } from "./api";
import { FleetDialog } from "./FleetDialog";
import { troubled } from "./slurm";

const size = 100;
const idOf = (fleet: Fleet) => fleet.id;
const nameOf = (fleet: Fleet) => fleet.name;

export function FleetsScreen() {
  const { t } = useTranslation("fleets");
  const navigate = useNavigate();
  const [creating, setCreating] = useState(false);
  const columns = useFleetColumns();
  const admin = session.user?.role === "admin";
  const open = (id: string) => void navigate({ to: "/fleets/$id", params: { id } });
  const list = usePages<Fleet, number>(
    ["fleets", "list"],
    size,
    0,
    async (limit, offset, signal) =>
      byOffset(await call(api.GET("/api/fleets", { params: { query: { limit, offset } }, signal })), size, offset),
    { refetchInterval: every },
  );
  const create = admin ? (
    <Button variant="primary" icon={<Plus size={14} aria-hidden />} onClick={() => setCreating(true)}>
      {t("create")}
    </Button>
  ) : null;
  return (
    <>
      <PageHeader name={t("title")} actions={create} />
      {list.error && list.rows.length === 0 ? (
        <ErrorPanel error={list.error} onRetry={list.refetch} />
      ) : !list.pending && list.rows.length === 0 ? (
        <EmptyState
          title={t("empty")}
          why={t("emptyWhy")}
          command={admin ? firstFleetCommand : undefined}
          docs="/docs"
        />
      ) : (
        <Table
          label={t("title")}
          rows={list.rows}
          columns={columns}
          rowId={idOf}
          rowName={nameOf}
          onOpen={(fleet) => open(fleet.id)}
          pending={list.pending}
          footer={<LoadMore more={list.more} busy={list.loadingMore} onMore={list.loadMore} />}
        />
      )}
      {creating ? <FleetDialog onClose={() => setCreating(false)} onCreated={open} /> : null}
    </>
  );
}

function useFleetColumns(): Column<Fleet>[] {
  const { t } = useTranslation("fleets");
  return useMemo(
    () => [
      { id: "state", header: t("state"), width: "7.5rem", cell: (fleet) => <StateBadge state={fleet.state} /> },
      {
        id: "name",
        header: t("name"),
        width: "minmax(10rem,1.2fr)",
        cell: (fleet) => (
          <Link to="/fleets/$id" params={{ id: fleet.id }} className="font-medium hover:underline">
            <UntrustedText text={fleet.name} longest={128} />
          </Link>
        ),
      },
      {
        id: "kind",
        header: t("kind"),
        width: "9rem",
        cell: (fleet) => (
          <span className="inline-flex items-center gap-2">
            {t(`kinds.${fleet.kind}`, { defaultValue: fleet.kind })}
            {troubled(fleet) ? <Badge tone="bad">{t("troubled")}</Badge> : null}
          </span>
        ),
      },
      {
        id: "pools",
        header: t("pools"),
        width: "minmax(8rem,1fr)",
        cell: (fleet) => <UntrustedText text={fleet.pools.join(", ")} className="text-soft" />,
      },
      { id: "nodes", header: t("nodes"), width: "5rem", numeric: true, cell: (fleet) => <Num value={fleet.nodes} /> },
      {
        id: "gpus",
        header: t("gpusFree"),
        width: "7rem",
        numeric: true,
        cell: (fleet) => t("freeOf", { free: fleet.gpus_free, total: fleet.gpus_total }),
      },
      {
        id: "lost",
        header: t("lostGpus"),
        width: "7rem",
        numeric: true,
        cell: (fleet) => <Num value={fleet.gpus_unhealthy} />,
      },
      {
        id: "seen",
        header: t("seen"),
        width: "7rem",
        numeric: true,
        cell: (fleet) => <Time at={fleet.last_seen_at} />,
      },
    ],
    [t],
  );
}
