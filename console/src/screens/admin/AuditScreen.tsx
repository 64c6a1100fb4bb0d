import { useNavigate } from "@tanstack/react-router";
import { ShieldCheck } from "lucide-react";
import { useCallback, useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { byOffset, usePages } from "@/api/pages";
import { Button, EmptyState, ErrorPanel, LoadMore, PageHeader, Table } from "@/ui";
import { AuditDetail } from "./AuditDetail";
import { AuditFilters } from "./AuditFilters";
import type { AuditRow } from "./api";
import { auditRoute } from "./area";
import { type AuditSearch, sinceOf } from "./audit";
import { useAuditColumns } from "./audit-columns";
import { VerifyDialog } from "./VerifyDialog";

const size = 100;
const idOf = (row: AuditRow) => row.id;

export function AuditScreen() {
  const { t } = useTranslation("admin");
  const { row: chosen, span, ...filters } = auditRoute.useSearch();
  const navigate = useNavigate({ from: auditRoute.fullPath });
  const [verifying, setVerifying] = useState(false);
  const columns = useAuditColumns();
  const since = useMemo(() => sinceOf(span, Date.now()), [span]);
  const list = usePages<AuditRow, number>(
    ["admin", "audit", filters, since ?? ""],
    size,
    0,
    async (limit, offset, signal) =>
      byOffset(
        await call(api.GET("/api/admin/audit", { params: { query: { limit, offset, since, ...filters } }, signal })),
        size,
        offset,
      ),
  );
  const change = useCallback(
    (next: Partial<AuditSearch>) => void navigate({ to: ".", search: (s) => ({ ...s, ...next }), replace: true }),
    [navigate],
  );
  const verify = (
    <Button icon={<ShieldCheck size={14} aria-hidden />} onClick={() => setVerifying(true)}>
      {t("verify")}
    </Button>
  );
  const shown = list.rows.find((row) => row.id === chosen);
  return (
    <>
      <PageHeader name={t("audit")} actions={verify} />
      <AuditFilters filters={{ ...filters, span }} onChange={change} onRefresh={list.refetch} />
      {list.error && list.rows.length === 0 ? (
        <ErrorPanel error={list.error} onRetry={list.refetch} />
      ) : !list.pending && list.rows.length === 0 ? (
        <EmptyState title={t("noAudit")} why={t("noAuditWhy")} docs="/docs" />
      ) : (
        <Table
          label={t("audit")}
          rows={list.rows}
          columns={columns}
          rowId={idOf}
          onOpen={(row) => change({ row: row.id })}
          pending={list.pending}
          footer={<LoadMore more={list.more} busy={list.loadingMore} onMore={list.loadMore} />}
        />
      )}
      {shown ? <AuditDetail row={shown} onClose={() => change({ row: undefined })} /> : null}
      {verifying ? <VerifyDialog onClose={() => setVerifying(false)} /> : null}
    </>
  );
}
