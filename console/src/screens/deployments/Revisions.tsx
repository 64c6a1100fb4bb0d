import { Plus } from "lucide-react";
import { lazy, Suspense, useState } from "react";
import { useTranslation } from "react-i18next";
import { firstRevisionCommand } from "@/lib/commands";
import { Button, EmptyState, ErrorPanel, LoadMore, SkeletonLines } from "@/ui";
import { useGrowing } from "@/ui/table/growing";
import type { Change } from "./DeploymentScreen";
import type { Deployment, Revision } from "./deployment";
import { rollbackTarget } from "./deployment";
import { RevisionRow } from "./RevisionRow";
import type { DeploymentSearch } from "./search";

const NewRevision = lazy(() => import("./NewRevision"));
const PromoteDialog = lazy(() => import("./PromoteDialog"));

export type Asked = { kind: "promote" | "rollback"; revision: Revision };

type Props = {
  deployment: Deployment;
  etag: string | null;
  revisions: { data?: Revision[]; error: unknown; refetch: () => unknown };
  search: DeploymentSearch;
  onChange: Change;
};

export default function Revisions({ deployment, etag, revisions, search, onChange }: Props) {
  const { t } = useTranslation("deployments");
  const [adding, setAdding] = useState(false);
  const [asked, setAsked] = useState<Asked | null>(null);
  const rows = revisions.data;
  const { shown, more, loadMore } = useGrowing(rows ?? []);
  if (revisions.error && !rows) return <ErrorPanel error={revisions.error} onRetry={() => void revisions.refetch()} />;
  if (!rows) return <SkeletonLines lines={5} />;
  const promoted = rows.find((r) => r.id === deployment.promoted_revision_id);
  const back = rollbackTarget(deployment, rows);
  return (
    <div className="grid gap-3">
      <div className="flex flex-wrap items-center gap-2">
        <p className="text-sm text-soft">{t("revisionsWhy")}</p>
        <div className="ml-auto flex gap-2">
          {back ? (
            <Button
              disabled={Boolean(deployment.pending_revision)}
              onClick={() => setAsked({ kind: "rollback", revision: back })}
            >
              {t("rollbackTo", { number: back.number })}
            </Button>
          ) : null}
          <Button variant="primary" icon={<Plus size={14} aria-hidden />} onClick={() => setAdding(true)}>
            {t("newRevision")}
          </Button>
        </div>
      </div>
      {rows.length === 0 ? (
        <EmptyState
          title={t("noRevisions")}
          why={t("noRevisionsWhy")}
          command={firstRevisionCommand(deployment.id)}
          docs="/docs"
        />
      ) : (
        <ul className="divide-y divide-line overflow-hidden rounded-lg border bg-card">
          {shown.map((revision) => (
            <RevisionRow
              key={revision.id}
              revision={revision}
              promoted={promoted}
              deployment={deployment}
              open={search.revision === revision.number}
              onOpen={(open) => onChange({ revision: open ? revision.number : undefined })}
              onPromote={() => setAsked({ kind: "promote", revision })}
            />
          ))}
          {more ? (
            <li>
              <LoadMore more busy={false} onMore={loadMore} />
            </li>
          ) : null}
        </ul>
      )}
      <Suspense fallback={null}>
        {adding ? (
          <NewRevision deployment={deployment} like={promoted ?? rows[0]} onClose={() => setAdding(false)} />
        ) : null}
        {asked ? (
          <PromoteDialog
            asked={asked}
            promoted={promoted}
            deployment={deployment}
            etag={etag}
            onClose={() => setAsked(null)}
          />
        ) : null}
      </Suspense>
    </div>
  );
}
