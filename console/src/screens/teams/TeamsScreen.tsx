import { Link, useNavigate } from "@tanstack/react-router";
import { Plus } from "lucide-react";
import { useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { byOffset, usePages } from "@/api/pages";
import { session } from "@/auth/browser";
import { firstTeamCommand } from "@/lib/commands";
import {
  Button,
  type Column,
  EmptyState,
  ErrorPanel,
  LoadMore,
  Num,
  PageHeader,
  Table,
  Time,
  UntrustedText,
} from "@/ui";
import type { Team } from "./api";
import { TeamDialog } from "./TeamDialog";

const size = 100;
const idOf = (team: Team) => team.id;
const nameOf = (team: Team) => team.name;

export function TeamsScreen() {
  const { t } = useTranslation("teams");
  const navigate = useNavigate();
  const [creating, setCreating] = useState(false);
  const columns = useTeamColumns();
  const admin = session.user?.role === "admin";
  const open = (id: string) => void navigate({ to: "/teams/$id", params: { id } });
  const list = usePages<Team, number>(
    ["teams", "list"],
    size,
    0,
    async (limit, offset, signal) =>
      byOffset(await call(api.GET("/api/teams", { params: { query: { limit, offset } }, signal })), size, offset),
    { refetchInterval: 30_000 },
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
          why={t(admin ? "emptyWhyAdmin" : "emptyWhy")}
          command={admin ? firstTeamCommand : undefined}
          docs="/docs"
        />
      ) : (
        <Table
          label={t("title")}
          rows={list.rows}
          columns={columns}
          rowId={idOf}
          rowName={nameOf}
          onOpen={(team) => open(team.id)}
          pending={list.pending}
          footer={<LoadMore more={list.more} busy={list.loadingMore} onMore={list.loadMore} />}
        />
      )}
      {creating ? <TeamDialog onClose={() => setCreating(false)} onCreated={open} /> : null}
    </>
  );
}

function useTeamColumns(): Column<Team>[] {
  const { t } = useTranslation("teams");
  return useMemo(
    () => [
      {
        id: "name",
        header: t("name"),
        width: "minmax(11rem,1.4fr)",
        cell: (team) => (
          <Link to="/teams/$id" params={{ id: team.id }} className="font-medium hover:underline">
            <UntrustedText text={team.name} longest={128} />
          </Link>
        ),
      },
      {
        id: "key",
        header: t("key"),
        width: "minmax(8rem,0.8fr)",
        cell: (team) => <span className="font-mono text-xs text-soft">{team.key}</span>,
      },
      {
        id: "leads",
        header: t("leads"),
        width: "minmax(10rem,1.4fr)",
        cell: (team) => (
          <UntrustedText
            text={team.members
              .filter((m) => m.role === "lead")
              .map((m) => m.username)
              .join(", ")}
            className="text-soft"
          />
        ),
      },
      {
        id: "members",
        header: t("members"),
        width: "6rem",
        numeric: true,
        cell: (team) => <Num value={team.member_count} />,
      },
      {
        id: "created",
        header: t("created"),
        width: "7rem",
        numeric: true,
        cell: (team) => <Time at={team.created_at} />,
      },
    ],
    [t],
  );
}
