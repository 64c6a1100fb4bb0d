import { useTranslation } from "react-i18next";
import { LineageTab } from "@/screens/lineage/lazy";
import { EmptyState, ErrorPanel, Select, SkeletonLines } from "@/ui";
import type { Change } from "./DeploymentScreen";
import type { Deployment, Revision } from "./deployment";
import type { DeploymentSearch } from "./search";

type Props = {
  deployment: Deployment;
  revisions: { data?: Revision[]; error: unknown; refetch: () => unknown };
  search: DeploymentSearch;
  onChange: Change;
};

// RevisionLineage is the lineage of the chosen revision, at first of the promoted one or the newest.
export default function RevisionLineage({ deployment, revisions, search, onChange }: Props) {
  const { t } = useTranslation("deployments");
  const rows = revisions.data;
  if (revisions.error && !rows) return <ErrorPanel error={revisions.error} onRetry={() => void revisions.refetch()} />;
  if (!rows) return <SkeletonLines lines={5} />;
  const number = search.revision ?? deployment.promoted_revision ?? rows[0]?.number;
  if (number === undefined)
    return <EmptyState title={t("noRevisions")} why={t("noRevisionsWhy")} docs="/docs/reference/api" />;
  return (
    <>
      <div className="mb-3 w-48">
        <Select
          label={t("revision")}
          size="sm"
          value={String(number)}
          onChange={(value) => onChange({ revision: Number(value) })}
          options={rows.map((row) => ({
            value: String(row.number),
            label: t("revisionNumber", { number: row.number }),
          }))}
        />
      </div>
      <LineageTab of={{ kind: "revision", id: deployment.id, number }} />
    </>
  );
}
