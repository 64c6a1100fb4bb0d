import { useState } from "react";
import { useTranslation } from "react-i18next";
import { toApiError } from "@/api/error";
import type { Model, ModelVersion } from "@/api/models";
import { Button, Dialog, ErrorNote, Field, Input, UntrustedText } from "@/ui";
import { type Act, change, useModelsChanged } from "./api";

type Props = { act: Act; model: Model; version: ModelVersion; etag: string | null; onClose: () => void };

// ActDialog changes the stage of a version. If something uses a version that should be archived, the server names it.
export default function ActDialog({ act, model, version, etag, onClose }: Props) {
  const { t } = useTranslation("models");
  const changed = useModelsChanged();
  const [note, setNote] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const confirm = async () => {
    setBusy(true);
    setError(null);
    try {
      await change(act, model.id, version.version, note.trim(), etag);
      onClose();
    } catch (thrown) {
      setError(thrown);
      setBusy(false);
    }
    await changed();
  };
  const refused = error ? toApiError(error) : null;
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && !busy && onClose()}
      title={t(`actTitle.${act}`, { name: model.name, version: version.version })}
      description={t(`actWhy.${act}`)}
      footer={
        <>
          <Button onClick={onClose}>{t("cancel")}</Button>
          <Button variant={act === "archive" ? "danger" : "primary"} busy={busy} onClick={() => void confirm()}>
            {t(`act.${act}`)}
          </Button>
        </>
      }
    >
      <div className="grid gap-3 pt-1">
        {act === "unarchive" ? null : (
          <Field label={t("note")} hint={t("noteHint")}>
            {(control) => (
              <Input {...control} maxLength={1000} value={note} onChange={(e) => setNote(e.target.value)} />
            )}
          </Field>
        )}
        {refused ? <ErrorNote error={refused} /> : null}
        {refused?.status === 409 ? (
          <p className="text-sm">
            <UntrustedText text={refused.detail} longest={2000} />
          </p>
        ) : null}
      </div>
    </Dialog>
  );
}
