import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { problemOf } from "@/api/error";
import { visible } from "@/lib/untrusted";
import { Field, Input } from "@/ui";
import { FormDialog } from "@/ui/FormDialog";
import { useFleetsChanged } from "./api";
import type { SlurmPool, SlurmRow } from "./slurm";

const fields = [
  { name: "partition", longest: 64, required: true },
  { name: "folder", longest: 512, required: true },
  { name: "account", longest: 64 },
  { name: "qos", longest: 64 },
  { name: "user", longest: 32 },
] as const;

// SlurmDialog sets how the jobs of a pool run on Slurm. The agent then tests the pool.
export function SlurmDialog({ row, onClose }: { row: SlurmRow; onClose: () => void }) {
  const { t } = useTranslation("fleets");
  const changed = useFleetsChanged();
  const [values, setValues] = useState<SlurmPool>(
    row.settings ?? { partition: "", folder: "", account: "", qos: "", user: "" },
  );
  const save = async () => {
    const slurm = { ...values };
    for (const { name } of fields) slurm[name] = slurm[name].trim();
    await call(api.PATCH("/api/cluster/pools/{pool}", { params: { path: { pool: row.pool } }, body: { slurm } }));
    await changed();
  };
  return (
    <FormDialog
      title={t("slurm.editTitle", { pool: visible(row.pool, 64).text })}
      description={t("slurm.editWhy")}
      action={t("save")}
      onClose={onClose}
      onSave={save}
    >
      {(error) => (
        <>
          {fields.map((field, at) => (
            <Field
              key={field.name}
              label={t(`slurm.${field.name}`)}
              hint={t(`slurm.hints.${field.name}`)}
              error={problemOf(error, "body", "slurm", field.name)}
            >
              {(control) => (
                <Input
                  {...control}
                  autoFocus={at === 0}
                  required={"required" in field}
                  maxLength={field.longest}
                  spellCheck={false}
                  autoComplete="off"
                  value={values[field.name]}
                  onChange={(e) => setValues({ ...values, [field.name]: e.target.value })}
                  className="font-mono"
                />
              )}
            </Field>
          ))}
        </>
      )}
    </FormDialog>
  );
}
