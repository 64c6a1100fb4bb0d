import { Pause, Play } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { Button, ConfirmDialog } from "@/ui";
import { RadioList } from "@/ui/RadioList";
import { resume, suspend, useChanged } from "./api";
import type { Deployment } from "./deployment";

// HeaderActions suspends and resumes a deployment.
export function HeaderActions({ deployment, etag }: { deployment: Deployment; etag: string | null }) {
  const { t } = useTranslation("deployments");
  const [open, setOpen] = useState(false);
  const [mode, setMode] = useState<"drain" | "cut">("drain");
  const changed = useChanged();
  const suspended = deployment.state === "suspended";
  const act = async () => {
    try {
      await (suspended ? resume(deployment.id, etag) : suspend(deployment.id, mode, etag));
    } finally {
      await changed();
    }
  };
  return (
    <>
      <Button
        icon={suspended ? <Play size={13} aria-hidden /> : <Pause size={13} aria-hidden />}
        onClick={() => setOpen(true)}
      >
        {suspended ? t("resume") : t("suspend")}
      </Button>
      <ConfirmDialog
        open={open}
        onOpenChange={setOpen}
        danger={!suspended}
        title={suspended ? t("resumeTitle", { name: deployment.name }) : t("suspendTitle", { name: deployment.name })}
        description={suspended ? t("resumeWhy") : t("suspendWhy")}
        action={suspended ? t("resume") : t("suspend")}
        onConfirm={act}
      >
        {suspended ? null : (
          <RadioList
            label={t("running")}
            value={mode}
            onChange={setMode}
            options={[
              { value: "drain", label: t("drain"), hint: t("drainHint") },
              { value: "cut", label: t("cut"), hint: t("cutHint") },
            ]}
          />
        )}
      </ConfirmDialog>
    </>
  );
}
