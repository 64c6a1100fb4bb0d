import { useTranslation } from "react-i18next";
import { ConfirmDialog, Num } from "@/ui";
import { CopyId } from "@/ui/CopyId";
import { promote, rollback, useChanged, useMetrics } from "./api";
import { ConfigDiff } from "./ConfigDiff";
import { type Deployment, type Revision, total } from "./deployment";
import type { Asked } from "./Revisions";
import { absolute } from "./snippets";

type Props = {
  asked: Asked;
  promoted: Revision | undefined;
  deployment: Deployment;
  etag: string | null;
  onClose: () => void;
};

// PromoteDialog requires a confirmation before another revision serves the calls. A rollback to a revision that is not running starts it.
export default function PromoteDialog({ asked, promoted, deployment, etag, onClose }: Props) {
  const { t } = useTranslation("deployments");
  const { kind, revision } = asked;
  const changed = useChanged();
  const { data } = useMetrics(deployment.id, 300, 300, { every: 10_000 });
  const start = kind === "rollback" && !revision.ready;
  const act = async () => {
    try {
      if (kind === "promote") await promote(deployment.id, revision.number, etag);
      else await rollback(deployment.id, { to_revision: revision.number, start }, etag);
    } finally {
      // The dialog need not wait for the page behind it.
      void changed();
    }
  };
  const values = { number: revision.number, name: deployment.name };
  return (
    <ConfirmDialog
      open
      onOpenChange={(open) => !open && onClose()}
      title={kind === "promote" ? t("promoteTitle", values) : t("rollbackTitle", values)}
      description={start ? t("rollbackStarts") : t("promoteWhy")}
      action={kind === "promote" ? t("promote") : t("rollback")}
      onConfirm={act}
    >
      <div className="grid gap-3 pb-1 text-sm">
        <ConfigDiff before={promoted} after={revision} />
        <p>
          {t("trafficNow")} <Num value={data ? total(data.points).calls : null} />
        </p>
        <p className="flex min-w-0 flex-wrap items-center gap-x-2 text-soft">
          {t("urlStays")} <CopyId id={absolute(deployment.url, location.origin)} className="text-ink" />
        </p>
      </div>
    </ConfirmDialog>
  );
}
