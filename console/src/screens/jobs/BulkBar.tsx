import { X } from "lucide-react";
import { useTranslation } from "react-i18next";
import { Button, IconButton } from "@/ui";
import { actionIcons } from "./JobMenu";
import { type Action, actions, type Job, possible } from "./job";

type Props = { jobs: Job[]; onAction: (action: Action, jobs: Job[]) => void; onClear: () => void };

// BulkBar has the actions for the selected jobs. Each action applies to those whose state allows it.
export function BulkBar({ jobs, onAction, onClear }: Props) {
  const { t } = useTranslation("jobs");
  if (jobs.length === 0) return null;
  return (
    <div
      role="toolbar"
      aria-label={t("selection")}
      className="fade-in flex flex-wrap items-center gap-2 border-t bg-card px-4 py-2 md:px-6"
    >
      <span className="tabular mr-2 text-sm font-medium">{t("selected", { count: jobs.length })}</span>
      {actions.map((action) => {
        const fit = jobs.filter((job) => possible(action, job));
        const Icon = actionIcons[action];
        return (
          <Button
            key={action}
            size="sm"
            icon={<Icon size={12} aria-hidden />}
            disabled={fit.length === 0}
            onClick={() => onAction(action, fit)}
          >
            {t(`action.${action}`)}
            {fit.length > 0 && fit.length < jobs.length ? (
              <span className="tabular text-soft">{fit.length}</span>
            ) : null}
          </Button>
        );
      })}
      <IconButton label={t("unselect")} icon={<X size={14} aria-hidden />} onClick={onClear} className="ml-auto" />
    </div>
  );
}
