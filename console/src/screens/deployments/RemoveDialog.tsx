import { useNavigate } from "@tanstack/react-router";
import { type FormEvent, useId, useState } from "react";
import { useTranslation } from "react-i18next";
import { Button, Dialog, ErrorNote, Field, Input } from "@/ui";
import { remove, useChanged } from "./api";
import type { Deployment } from "./deployment";

type Props = { deployment: Deployment; etag: string | null; onClose: () => void };

// RemoveDialog deletes a deployment after its name was typed.
export function RemoveDialog({ deployment, etag, onClose }: Props) {
  const { t } = useTranslation("deployments");
  const form = useId();
  const navigate = useNavigate();
  const changed = useChanged();
  const [typed, setTyped] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const act = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      await remove(deployment.id, etag);
      await navigate({ to: "/deployments" });
    } catch (thrown) {
      setError(thrown);
      setBusy(false);
    }
    await changed();
  };
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && !busy && onClose()}
      title={t("deleteTitle", { name: deployment.name })}
      description={t("deleteWhy")}
      footer={
        <>
          <Button onClick={onClose}>{t("cancel")}</Button>
          <Button variant="danger" type="submit" form={form} busy={busy} disabled={typed !== deployment.name}>
            {t("delete")}
          </Button>
        </>
      }
    >
      <form id={form} onSubmit={(event) => void act(event)} className="grid gap-3 pt-1">
        <Field label={t("typeName", { name: deployment.name })}>
          {(control) => (
            <Input {...control} autoFocus autoComplete="off" value={typed} onChange={(e) => setTyped(e.target.value)} />
          )}
        </Field>
        {error ? <ErrorNote error={error} /> : null}
      </form>
    </Dialog>
  );
}
