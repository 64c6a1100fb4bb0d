import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { problemOf } from "@/api/error";
import { visible } from "@/lib/untrusted";
import { Field, Input } from "@/ui";
import { FormDialog } from "@/ui/FormDialog";
import { type Team, useTeamsChanged } from "./api";

export function QuotaDialog({ team, limit, onClose }: { team: Team; limit: number | undefined; onClose: () => void }) {
  const { t } = useTranslation("teams");
  const changed = useTeamsChanged();
  const [value, setValue] = useState(limit === undefined ? "" : String(limit));
  const save = async () => {
    const path = { subject_kind: "teams" as const, subject: team.key };
    const body = { gpu_limit: value === "" ? null : Number(value) };
    await call(api.PUT("/api/quota/{subject_kind}/{subject}", { params: { path }, body }));
    await changed();
  };
  return (
    <FormDialog
      title={t("quotaTitle", { name: visible(team.name, 64).text })}
      action={t("save")}
      onClose={onClose}
      onSave={save}
    >
      {(error) => (
        <Field label={t("gpuLimit")} hint={t("gpuLimitHint")} error={problemOf(error, "body", "gpu_limit")}>
          {(control) => (
            <Input
              {...control}
              autoFocus
              type="number"
              min={0}
              value={value}
              onChange={(e) => setValue(e.target.value)}
            />
          )}
        </Field>
      )}
    </FormDialog>
  );
}
