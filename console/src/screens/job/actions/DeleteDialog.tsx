import { useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import type { Job } from "@/screens/jobs/job";
import { ConfirmDialog } from "@/ui";

// DeleteDialog deletes an ended job and then shows its run, which stays.
export function DeleteDialog({ job, onClose }: { job: Job; onClose: () => void }) {
  const { t } = useTranslation("job");
  const navigate = useNavigate();
  const client = useQueryClient();
  const remove = async () => {
    await call(api.DELETE("/api/jobs/{job_id}", { params: { path: { job_id: job.id } } }));
    await navigate({ to: "/runs/$id/{-$tab}", params: { id: job.run_id, tab: undefined } });
    client.removeQueries({ queryKey: ["job", job.id] });
  };
  return (
    <ConfirmDialog
      open
      danger
      onOpenChange={(on) => !on && onClose()}
      title={t("deleteIt.title", { name: job.name })}
      description={t("deleteIt.what")}
      action={t("deleteIt.action")}
      onConfirm={remove}
    />
  );
}
