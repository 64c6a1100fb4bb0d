import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { problemOf } from "@/api/error";
import { Field, Input, Select } from "@/ui";
import { FormDialog } from "@/ui/FormDialog";
import { type Fleet, poolsOf, useFleetsChanged } from "./api";

const kinds = ["agent", "slurm"] as const;

// FleetDialog creates a fleet, or changes the given one.
export function FleetDialog({
  fleet,
  onClose,
  onCreated,
}: {
  fleet?: Fleet;
  onClose: () => void;
  onCreated?: (id: string) => void;
}) {
  const { t } = useTranslation("fleets");
  const changed = useFleetsChanged();
  const [name, setName] = useState(fleet?.name ?? "");
  const [kind, setKind] = useState<(typeof kinds)[number]>("agent");
  const [pools, setPools] = useState(fleet?.pools.join(", ") ?? "default");
  const save = async () => {
    const values = { name: name.trim(), pools: poolsOf(pools) };
    if (fleet) {
      await call(api.PATCH("/api/fleets/{fleet_id}", { params: { path: { fleet_id: fleet.id } }, body: values }));
      await changed();
      return;
    }
    const created = await call(api.POST("/api/fleets", { body: { ...values, kind } }));
    await changed();
    onCreated?.(created.id);
  };
  return (
    <FormDialog
      title={fleet ? t("editTitle") : t("create")}
      description={fleet ? undefined : t("createWhy")}
      action={fleet ? t("save") : t("createAction")}
      onClose={onClose}
      onSave={save}
    >
      {(error) => (
        <>
          <Field label={t("name")} error={problemOf(error, "body", "name")}>
            {(control) => (
              <Input
                {...control}
                autoFocus
                required
                maxLength={128}
                value={name}
                onChange={(e) => setName(e.target.value)}
              />
            )}
          </Field>
          {fleet ? null : (
            <Field label={t("kind")} hint={kind === "slurm" ? t("kindHint") : undefined}>
              {(control) => (
                <Select
                  id={control.id}
                  value={kind}
                  onChange={setKind}
                  options={kinds.map((value) => ({ value, label: t(`kinds.${value}`) }))}
                />
              )}
            </Field>
          )}
          <Field label={t("pools")} hint={t("poolsHint")} error={problemOf(error, "body", "pools")}>
            {(control) => (
              <Input
                {...control}
                required
                maxLength={1000}
                spellCheck={false}
                value={pools}
                onChange={(e) => setPools(e.target.value)}
                className="font-mono"
              />
            )}
          </Field>
        </>
      )}
    </FormDialog>
  );
}
