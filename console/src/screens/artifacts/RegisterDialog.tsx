import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { problemOf, toApiError } from "@/api/error";
import { Dialog, ErrorPanel, SkeletonLines, toast } from "@/ui";
import { type Artifact, register, useSource } from "./api";
import { nameFor } from "./artifact";
import { RegisterForm } from "./RegisterForm";

// RegisterDialog makes a version of a model from an artifact. The name of the run is the first choice for that of the model.
export function RegisterDialog({ artifact, onClose }: { artifact: Artifact; onClose: () => void }) {
  const { t } = useTranslation("artifacts");
  const client = useQueryClient();
  const run = useSource(artifact.run_id);
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const save = async (project: string, name: string) => {
    setBusy(true);
    setError(null);
    try {
      const version = await register(project, name, artifact);
      if (version.status === "rejected")
        toast.error(t("rejected", { ref: version.ref }), { description: version.status_reason ?? undefined });
      else toast.success(t("registered", { ref: version.ref }));
      onClose();
    } catch (thrown) {
      setError(thrown);
    } finally {
      setBusy(false);
      void client.invalidateQueries({ queryKey: ["models"] });
    }
  };
  return (
    <Dialog open onOpenChange={(open) => open || onClose()} title={t("register")} description={t("registerWhy")}>
      {run.error ? <ErrorPanel error={run.error} onRetry={() => void run.refetch()} /> : null}
      {run.isPending ? <SkeletonLines lines={3} /> : null}
      {run.data ? (
        <RegisterForm
          artifact={artifact}
          project={run.data.project}
          first={nameFor(run.data.name)}
          busy={busy}
          error={error}
          problem={error ? problemOf(toApiError(error), "body", "name") : null}
          onSave={(name) => void save(run.data.project, name)}
        />
      ) : null}
    </Dialog>
  );
}
