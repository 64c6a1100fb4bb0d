import { useNavigate, useSearch } from "@tanstack/react-router";
import { Plus } from "lucide-react";
import { lazy, Suspense, useState } from "react";
import { useTranslation } from "react-i18next";
import { firstDeploymentCommand } from "@/lib/commands";
import { Button, ColumnChooser, EmptyState, ErrorPanel, LoadMore, PageHeader, Table, useColumns } from "@/ui";
import { useDeployments } from "./api";
import { useDeploymentColumns } from "./columns";
import type { Deployment } from "./deployment";

const CreateDeployment = lazy(() => import("./CreateDeployment"));
const idOf = (deployment: Deployment) => deployment.id;
const nameOf = (deployment: Deployment) => deployment.name;

export function DeploymentsScreen() {
  const { t } = useTranslation("deployments");
  const navigate = useNavigate();
  const { project } = useSearch({ strict: false });
  const [creating, setCreating] = useState(false);
  const columns = useDeploymentColumns();
  const { hidden, show } = useColumns("deployments", columns);
  const list = useDeployments(project);
  const open = (id: string) => void navigate({ to: "/deployments/$id", params: { id } });
  const empty = !list.pending && list.rows.length === 0;
  return (
    <>
      <PageHeader
        name={t("title")}
        actions={
          <>
            <ColumnChooser columns={columns} hidden={hidden} onShow={show} />
            <Button variant="primary" icon={<Plus size={14} aria-hidden />} onClick={() => setCreating(true)}>
              {t("create")}
            </Button>
          </>
        }
      />
      {list.error && list.rows.length === 0 ? (
        <ErrorPanel error={list.error} onRetry={list.refetch} />
      ) : empty ? (
        <EmptyState
          title={t("empty")}
          why={t("emptyWhy")}
          command={firstDeploymentCommand(project ?? "default")}
          docs="/docs"
        />
      ) : (
        <Table
          label={t("title")}
          rows={list.rows}
          columns={columns}
          rowId={idOf}
          rowName={nameOf}
          hidden={hidden}
          onOpen={(deployment) => open(deployment.id)}
          pending={list.pending}
          footer={<LoadMore more={list.more} busy={list.loadingMore} onMore={list.loadMore} />}
        />
      )}
      <Suspense fallback={null}>
        {creating ? (
          <CreateDeployment project={project ?? "default"} onClose={() => setCreating(false)} onCreated={open} />
        ) : null}
      </Suspense>
    </>
  );
}
