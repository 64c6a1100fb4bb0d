import { Link, useNavigate } from "@tanstack/react-router";
import { Plus } from "lucide-react";
import { useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { byOffset, usePages } from "@/api/pages";
import { firstProjectCommand } from "@/lib/commands";
import {
  Badge,
  Button,
  type Column,
  EmptyState,
  ErrorPanel,
  LoadMore,
  PageHeader,
  Table,
  Time,
  UntrustedText,
} from "@/ui";
import { CreateProject } from "./CreateProject";
import type { Project } from "./project";

const size = 100;
const idOf = (project: Project) => project.id;
const nameOf = (project: Project) => project.name;

export function ProjectsScreen() {
  const { t } = useTranslation("projects");
  const navigate = useNavigate();
  const [creating, setCreating] = useState(false);
  const columns = useColumnsOfProjects();
  const list = usePages<Project, number>(
    ["projects", "list"],
    size,
    0,
    async (limit, offset, signal) =>
      byOffset(await call(api.GET("/api/projects", { params: { query: { limit, offset } }, signal })), size, offset),
    { refetchInterval: 30_000 },
  );
  const create = (
    <Button variant="primary" icon={<Plus size={14} aria-hidden />} onClick={() => setCreating(true)}>
      {t("create")}
    </Button>
  );
  return (
    <>
      <PageHeader name={t("title")} actions={create} />
      {list.error && list.rows.length === 0 ? (
        <ErrorPanel error={list.error} onRetry={list.refetch} />
      ) : !list.pending && list.rows.length === 0 ? (
        <EmptyState title={t("empty")} why={t("emptyWhy")} command={firstProjectCommand} docs="/docs" />
      ) : (
        <Table
          label={t("title")}
          rows={list.rows}
          columns={columns}
          rowId={idOf}
          rowName={nameOf}
          onOpen={(project) => void navigate({ to: "/projects/$key", params: { key: project.key } })}
          pending={list.pending}
          footer={<LoadMore more={list.more} busy={list.loadingMore} onMore={list.loadMore} />}
        />
      )}
      {creating ? <CreateProject onClose={() => setCreating(false)} /> : null}
    </>
  );
}

function useColumnsOfProjects(): Column<Project>[] {
  const { t } = useTranslation("projects");
  return useMemo(
    () => [
      {
        id: "name",
        header: t("name"),
        width: "minmax(11rem,1.2fr)",
        cell: (project) => (
          <Link to="/projects/$key" params={{ key: project.key }} className="font-medium hover:underline">
            <UntrustedText text={project.name} longest={128} />
          </Link>
        ),
      },
      {
        id: "key",
        header: t("key"),
        width: "minmax(8rem,0.8fr)",
        cell: (project) => <span className="font-mono text-xs text-soft">{project.key}</span>,
      },
      {
        id: "description",
        header: t("description"),
        width: "minmax(12rem,2fr)",
        cell: (project) => <UntrustedText text={project.description ?? ""} className="text-soft" />,
      },
      {
        id: "visibility",
        header: t("visibility"),
        width: "8rem",
        cell: (project) => t(`visible.${project.visibility}`),
      },
      {
        id: "state",
        header: t("state"),
        width: "7rem",
        cell: (project) => (project.archived_at ? <Badge>{t("archived")}</Badge> : null),
      },
      {
        id: "created",
        header: t("created"),
        width: "7rem",
        numeric: true,
        cell: (project) => <Time at={project.created_at} />,
      },
    ],
    [t],
  );
}
