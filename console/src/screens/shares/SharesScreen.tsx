import { useQueryClient } from "@tanstack/react-query";
import { Plus } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { byOffset, usePages } from "@/api/pages";
import { firstShareCommand } from "@/lib/commands";
import { Button, ConfirmDialog, EmptyState, ErrorPanel, LoadMore, PageHeader, Table } from "@/ui";
import { type Share, stateOf } from "./api";
import { CreateShare } from "./CreateShare";
import { useShareColumns } from "./share-columns";

const key = ["shares"];
const size = 100;
const idOf = (share: Share) => share.id;

export function SharesScreen() {
  const { t } = useTranslation("shares");
  const queries = useQueryClient();
  const [creating, setCreating] = useState(false);
  const [revoking, setRevoking] = useState<Share | null>(null);
  const columns = useShareColumns();
  const changed = () => queries.invalidateQueries({ queryKey: key });
  const list = usePages<Share, number>(
    key,
    size,
    0,
    async (limit, offset, signal) =>
      byOffset(await call(api.GET("/api/shares", { params: { query: { limit, offset } }, signal })), size, offset),
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
        <EmptyState title={t("empty")} why={t("emptyWhy")} command={firstShareCommand} docs="/docs" />
      ) : (
        <Table
          label={t("title")}
          rows={list.rows}
          columns={columns}
          rowId={idOf}
          pending={list.pending}
          menuWidth="5.5rem"
          menu={(share) =>
            stateOf(share, Date.now()) === "active" ? (
              <Button size="sm" variant="quiet" onClick={() => setRevoking(share)}>
                {t("revoke")}
              </Button>
            ) : null
          }
          footer={<LoadMore more={list.more} busy={list.loadingMore} onMore={list.loadMore} />}
        />
      )}
      {creating ? <CreateShare onClose={() => setCreating(false)} onCreated={changed} /> : null}
      <ConfirmDialog
        open={revoking !== null}
        onOpenChange={() => setRevoking(null)}
        title={t("revokeTitle")}
        description={t("revokeWhy", { count: revoking?.views ?? 0 })}
        action={t("revoke")}
        danger
        onConfirm={async () => {
          await call(api.DELETE("/api/shares/{share_id}", { params: { path: { share_id: revoking?.id ?? "" } } }));
          await changed();
        }}
      />
    </>
  );
}
