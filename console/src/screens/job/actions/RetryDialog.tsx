import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import type { Job } from "@/screens/jobs/job";
import { ConfirmDialog } from "@/ui";
import { useOnceKey } from "./once";

type Props = { job: Job; onClose: () => void; onCreated: (job: Job) => void };

// RetryDialog submits the spec of an ended job again.
export function RetryDialog({ job, onClose, onCreated }: Props) {
  const { t } = useTranslation("job");
  const [key] = useOnceKey();
  const retry = async () => {
    const params = { path: { job_id: job.id }, header: { "Idempotency-Key": key } };
    onCreated(await call(api.POST("/api/jobs/{job_id}/retry", { params })));
  };
  return (
    <ConfirmDialog
      open
      onOpenChange={(open) => !open && onClose()}
      title={t("retry.title", { name: job.name })}
      description={t("retry.what")}
      action={t("retry.action")}
      onConfirm={retry}
    />
  );
}
