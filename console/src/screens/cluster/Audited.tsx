import { useTranslation } from "react-i18next";
import { api, call, type Schemas } from "@/api/client";
import { byOffset, usePages } from "@/api/pages";
import { EmptyState, ErrorPanel, LoadMore, SkeletonLines, Time, UntrustedText } from "@/ui";

type Row = Schemas["AuditRow"];
const size = 50;

// Audited lists what was done to a node or a fleet, newest first, for admins, who may read the audit log.
export function Audited({ kind, id }: { kind: "node" | "fleet"; id: string }) {
  const { t } = useTranslation("cluster");
  const list = usePages<Row, number>(
    ["cluster", "audited", kind, id],
    size,
    0,
    async (limit, offset, signal) =>
      byOffset(
        await call(
          api.GET("/api/admin/audit", {
            params: { query: { limit, offset, target_kind: kind, target_id: id } },
            signal,
          }),
        ),
        size,
        offset,
      ),
    { refetchInterval: 10_000 },
  );
  if (list.error && list.rows.length === 0) return <ErrorPanel error={list.error} onRetry={list.refetch} />;
  if (list.pending) return <SkeletonLines lines={3} />;
  if (list.rows.length === 0) return <EmptyState title={t("noEvents")} why={t("noEventsWhy")} />;
  return (
    <div className="rounded-lg border bg-card text-sm">
      <ol aria-label={t("events")} className="divide-y divide-line/60">
        {list.rows.map((row) => (
          <li key={row.id} className="flex min-h-8 flex-wrap items-center gap-x-3 px-4 py-1">
            <span className="w-24 shrink-0 text-soft">
              <Time at={row.at} />
            </span>
            <span className="w-44 shrink-0 font-mono text-xs">{row.action}</span>
            <UntrustedText
              text={row.actor_name ?? row.actor_id ?? row.actor_kind}
              longest={128}
              className="min-w-0 flex-1 truncate"
            />
            <UntrustedText text={row.client_address ?? ""} longest={64} className="tabular text-soft" />
          </li>
        ))}
      </ol>
      <LoadMore more={list.more} busy={list.loadingMore} onMore={list.loadMore} />
    </div>
  );
}
