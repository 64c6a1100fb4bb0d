import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { problemOf } from "@/api/error";
import { visible } from "@/lib/untrusted";
import { Field, Input } from "@/ui";
import { FormDialog } from "@/ui/FormDialog";
import { type Quota, type User, useAdminChanged } from "./api";

export function QuotaDialog({ user, quota, onClose }: { user: User; quota: Quota | undefined; onClose: () => void }) {
  const { t } = useTranslation("admin");
  const changed = useAdminChanged();
  const [limit, setLimit] = useState(quota ? String(quota.gpu_limit) : "");
  const save = async () => {
    const gpu_limit = limit === "" ? null : Number(limit);
    const path = { subject_kind: "users" as const, subject: user.username };
    await call(api.PUT("/api/quota/{subject_kind}/{subject}", { params: { path }, body: { gpu_limit } }));
    await changed();
  };
  return (
    <FormDialog
      title={t("quotaTitle", { name: visible(user.username, 64).text })}
      description={quota ? t("quotaNow", { held: quota.gpu_held, queued: quota.gpu_queued }) : undefined}
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
              step={1}
              value={limit}
              onChange={(e) => setLimit(e.target.value)}
            />
          )}
        </Field>
      )}
    </FormDialog>
  );
}
