import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { problemOf } from "@/api/error";
import { Field, Input } from "@/ui";
import { FormDialog } from "@/ui/FormDialog";
import { type Team, useTeamsChanged } from "./api";

// TeamDialog creates a team, or renames the given one.
export function TeamDialog({
  team,
  onClose,
  onCreated,
}: {
  team?: Team;
  onClose: () => void;
  onCreated?: (id: string) => void;
}) {
  const { t } = useTranslation("teams");
  const changed = useTeamsChanged();
  const [name, setName] = useState(team?.name ?? "");
  const [key, setKey] = useState("");
  const save = async () => {
    const values = { name: name.trim() };
    if (team) {
      await call(api.PATCH("/api/teams/{team_id}", { params: { path: { team_id: team.id } }, body: values }));
      await changed();
      return;
    }
    const created = await call(api.POST("/api/teams", { body: { ...values, key: key.trim() } }));
    await changed();
    onCreated?.(created.id);
  };
  return (
    <FormDialog
      title={team ? t("rename") : t("create")}
      action={team ? t("save") : t("createAction")}
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
          {team ? null : (
            <Field label={t("key")} hint={t("keyHint")} error={problemOf(error, "body", "key")}>
              {(control) => (
                <Input
                  {...control}
                  required
                  maxLength={64}
                  spellCheck={false}
                  value={key}
                  onChange={(e) => setKey(e.target.value)}
                  className="font-mono"
                />
              )}
            </Field>
          )}
        </>
      )}
    </FormDialog>
  );
}
