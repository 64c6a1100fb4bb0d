import { type FormEvent, useState } from "react";
import { useTranslation } from "react-i18next";
import { problemOf, toApiError } from "@/api/error";
import { Button, Dialog, ErrorNote, Field, Input } from "@/ui";
import { useUpdate } from "./update";
import type { Run } from "./use-runs";

// EditDialog changes the name and the tags of a run.
export function EditDialog({ run, onClose }: { run: Run; onClose: () => void }) {
  const { t } = useTranslation("runs");
  const update = useUpdate(run);
  const [name, setName] = useState(run.name);
  const [tags, setTags] = useState(run.tags.join(", "));
  const [busy, setBusy] = useState(false);
  const [thrown, setThrown] = useState<unknown>(null);
  const error = thrown ? toApiError(thrown) : null;
  const save = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setThrown(null);
    try {
      await update({ name: name.trim(), tags: splitTags(tags) });
      onClose();
    } catch (failed) {
      setThrown(failed);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Dialog open sticky onOpenChange={(on) => !on && !busy && onClose()} title={t("editTitle")}>
      <form onSubmit={(event) => void save(event)} className="grid gap-3">
        <Field label={t("name")} error={problemOf(error, "body", "name")}>
          {(control) => (
            <Input {...control} value={name} maxLength={128} required onChange={(e) => setName(e.target.value)} />
          )}
        </Field>
        <Field label={t("tags")} hint={t("tagsHint")} error={problemOf(error, "body", "tags")}>
          {(control) => <Input {...control} value={tags} onChange={(e) => setTags(e.target.value)} />}
        </Field>
        {error ? <ErrorNote error={error} /> : null}
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>{t("cancel")}</Button>
          <Button type="submit" variant="primary" busy={busy}>
            {t("save")}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

export function splitTags(text: string): string[] {
  return [
    ...new Set(
      text
        .split(/[,，]/)
        .map((tag) => tag.trim())
        .filter(Boolean),
    ),
  ];
}
