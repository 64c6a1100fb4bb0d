import { ChevronRight } from "lucide-react";
import { useTranslation } from "react-i18next";
import { cx } from "@/lib/cx";
import { Badge, Button, StateBadge, Time, Tooltip } from "@/ui";
import { ModelName } from "../models/ModelName";
import { cannotPromote, type Deployment, isMoving, pathTo, type Revision } from "./deployment";
import { changes } from "./diff";
import { RevisionDetail } from "./RevisionDetail";

type Props = {
  revision: Revision;
  promoted: Revision | undefined;
  deployment: Deployment;
  open: boolean;
  onOpen: (open: boolean) => void;
  onPromote: () => void;
};

export function RevisionRow({ revision, promoted, deployment, open, onOpen, onPromote }: Props) {
  const { t } = useTranslation("deployments");
  const serves = promoted?.id === revision.id;
  const blocked = cannotPromote(revision, deployment);
  const differs = promoted && !serves ? changes(promoted, revision).length : 0;
  const button = (
    // A disabled button has no tooltip, so this one states that it is disabled and does nothing.
    <Button
      size="sm"
      aria-disabled={blocked !== null}
      onClick={blocked ? undefined : onPromote}
      className={cx(blocked && "cursor-not-allowed opacity-50")}
    >
      {t("promote")}
    </Button>
  );
  return (
    <li>
      <div className="flex min-h-10 flex-wrap items-center gap-x-3 gap-y-1 px-3 py-1 text-sm">
        <button
          type="button"
          aria-expanded={open}
          onClick={() => onOpen(!open)}
          className="inline-flex h-7 w-14 items-center gap-1 rounded font-medium tabular hover:bg-hover"
        >
          <ChevronRight size={14} aria-hidden className={cx("text-soft", open && "rotate-90")} />
          {t("hash", { number: revision.number })}
        </button>
        <span className="w-28">
          <StateBadge state={revision.state} />
        </span>
        <span className="min-w-32 flex-1 truncate">
          {revision.source ? <ModelName id={revision.source.model_id} version={revision.source.version} /> : null}
        </span>
        {serves ? <Badge tone="good">{t("serves")}</Badge> : null}
        {deployment.pending_revision === revision.number ? <Badge tone="info">{t("promotesWhenReady")}</Badge> : null}
        {isMoving(revision) ? <Steps state={revision.state} /> : null}
        {differs > 0 ? <span className="text-xs text-soft">{t("differences", { count: differs })}</span> : null}
        <span className="w-24 text-right text-soft">
          <Time at={revision.created_at} />
        </span>
        <span className="flex w-24 justify-end">
          {serves ? null : blocked ? <Tooltip text={t(`cannotPromote.${blocked}`)}>{button}</Tooltip> : button}
        </span>
      </div>
      {open ? <RevisionDetail revision={revision} promoted={promoted} deployment={deployment} /> : null}
    </li>
  );
}

function Steps({ state }: { state: string }) {
  const { t } = useTranslation("deployments");
  const at = (pathTo as readonly string[]).indexOf(state);
  return (
    <span className="flex gap-0.5" role="img" aria-label={t("step", { step: at + 1, of: pathTo.length })}>
      {pathTo.map((step, index) => (
        <span key={step} className={cx("h-1.5 w-4 rounded-full", index <= at ? "bg-info" : "bg-line")} />
      ))}
    </span>
  );
}
