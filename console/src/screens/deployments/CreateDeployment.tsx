import { type FormEvent, useId, useState } from "react";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { type ApiError, problemOf, toApiError } from "@/api/error";
import { Button, Dialog, ErrorNote, Field, Input } from "@/ui";
import { useChanged } from "./api";

type Props = { project: string; onClose: () => void; onCreated: (id: string) => void };

export default function CreateDeployment({ project, onClose, onCreated }: Props) {
  const { t } = useTranslation("deployments");
  const form = useId();
  const changed = useChanged();
  const [name, setName] = useState("");
  const [where, setWhere] = useState(project);
  const [description, setDescription] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError | null>(null);
  const taken = error?.code === "deployment_exists";
  const create = async (event: FormEvent) => {
    event.preventDefault();
    if (busy) return;
    setBusy(true);
    setError(null);
    try {
      const body = { name: name.trim(), project: where.trim(), description: description.trim() };
      const made = await call(api.POST("/api/model-deployments", { body }));
      await changed();
      onCreated(made.id);
    } catch (thrown) {
      setError(toApiError(thrown));
      setBusy(false);
    }
  };
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && !busy && onClose()}
      title={t("create")}
      description={t("createWhy")}
      footer={
        <>
          <Button onClick={onClose}>{t("cancel")}</Button>
          <Button variant="primary" type="submit" form={form} busy={busy}>
            {t("createAction")}
          </Button>
        </>
      }
    >
      <form id={form} onSubmit={(event) => void create(event)} className="grid gap-3 pt-1">
        <Field label={t("name")} hint={t("nameHint")} error={taken ? t("nameTaken") : problemOf(error, "body", "name")}>
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
        <Field label={t("project")} error={problemOf(error, "body", "project")}>
          {(control) => (
            <Input {...control} required maxLength={64} value={where} onChange={(e) => setWhere(e.target.value)} />
          )}
        </Field>
        <Field label={t("description")} error={problemOf(error, "body", "description")}>
          {(control) => (
            <Input {...control} maxLength={4096} value={description} onChange={(e) => setDescription(e.target.value)} />
          )}
        </Field>
        {error && !taken && error.problems.length === 0 ? <ErrorNote error={error} /> : null}
      </form>
    </Dialog>
  );
}
