import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { toApiError } from "@/api/error";
import { act } from "@/screens/jobs/act";
import type { Action, Job } from "@/screens/jobs/job";
import { ConfirmDialog } from "@/ui";

type Props = { job: Job; action: Action; onClose: () => void; onChanged: (job: Job) => void };

// ActionDialog requires a confirmation before a job is paused, resumed or stopped. If the server refuses because the state has changed, the
// page shows the current state, and the dialog the reason.
export function ActionDialog({ job, action, onClose, onChanged }: Props) {
  const { t } = useTranslation("jobs");
  const confirm = async () => {
    try {
      onChanged(await act(action, job.id));
    } catch (error) {
      if (toApiError(error).status === 409)
        onChanged(await call(api.GET("/api/jobs/{job_id}", { params: { path: { job_id: job.id } } })));
      throw error;
    }
  };
  return (
    <ConfirmDialog
      open
      onOpenChange={(open) => !open && onClose()}
      title={t(`confirm.${action}`, { name: job.name })}
      description={t(`consequence.${action}`, { count: 1 })}
      action={t(`action.${action}`)}
      danger={action === "stop"}
      onConfirm={confirm}
    />
  );
}
