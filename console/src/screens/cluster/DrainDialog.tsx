import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { problemOf } from "@/api/error";
import { Field, Input, Select } from "@/ui";
import { FormDialog } from "@/ui/FormDialog";
import { type Node, useClusterChanged } from "./api";

const modes = ["checkpoint", "wait", "kill"] as const;
type Mode = (typeof modes)[number];

export function DrainDialog({ node, name, onClose }: { node: Node; name: string; onClose: () => void }) {
  const { t } = useTranslation("cluster");
  const changed = useClusterChanged();
  const [mode, setMode] = useState<Mode>("checkpoint");
  const [minutes, setMinutes] = useState("");
  const [reason, setReason] = useState("");
  const save = async () => {
    const deadline_s = mode !== "kill" && minutes !== "" ? Math.round(Number(minutes) * 60) : null;
    const body = { mode, deadline_s, reason: reason.trim() || null };
    await call(api.POST("/api/cluster/nodes/{node_id}/drain", { params: { path: { node_id: node.id } }, body }));
    await changed();
  };
  return (
    <FormDialog
      title={t("drainTitle", { name })}
      description={t("drainWhy", { count: node.works })}
      action={t("drainAction")}
      danger
      onClose={onClose}
      onSave={save}
    >
      {(error) => (
        <>
          <Field label={t("drainMode")} hint={t(`modeHint.${mode}`)}>
            {(control) => (
              <Select
                id={control.id}
                value={mode}
                onChange={setMode}
                options={modes.map((value) => ({ value, label: t(`mode.${value}`) }))}
              />
            )}
          </Field>
          {mode === "kill" ? null : (
            <Field label={t("deadline")} hint={t("deadlineHint")} error={problemOf(error, "body", "deadline_s")}>
              {(control) => (
                <Input
                  {...control}
                  type="number"
                  min={1}
                  max={525_600}
                  value={minutes}
                  onChange={(e) => setMinutes(e.target.value)}
                />
              )}
            </Field>
          )}
          <Field label={t("adminReason")} hint={t("reasonHint")}>
            {(control) => (
              <Input {...control} maxLength={1024} value={reason} onChange={(e) => setReason(e.target.value)} />
            )}
          </Field>
        </>
      )}
    </FormDialog>
  );
}
