import { type FormEvent, useId, useState } from "react";
import { useTranslation } from "react-i18next";
import { type ApiError, toApiError } from "@/api/error";
import { Button, Dialog, ErrorNote } from "@/ui";
import { ProjectFields, type Values } from "./ProjectFields";

type Props = {
  title: string;
  action: string;
  start: Values;
  withKey: boolean;
  onClose: () => void;
  onSave: (values: Values) => Promise<void>;
};

// ProjectDialog edits the fields of a project. It stays open until they are saved.
export function ProjectDialog({ title, action, start, withKey, onClose, onSave }: Props) {
  const { t } = useTranslation("projects");
  const form = useId();
  const [values, setValues] = useState(start);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError | null>(null);
  const save = async (event: FormEvent) => {
    event.preventDefault();
    if (busy) return;
    setBusy(true);
    setError(null);
    try {
      await onSave(values);
      onClose();
    } catch (thrown) {
      setError(toApiError(thrown));
      setBusy(false);
    }
  };
  // An error that belongs to a field is shown there.
  const shown = error && error.code !== "project_exists" && error.problems.length === 0 ? error : null;
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && !busy && onClose()}
      title={title}
      footer={
        <>
          <Button onClick={onClose}>{t("cancel")}</Button>
          <Button variant="primary" type="submit" form={form} busy={busy}>
            {action}
          </Button>
        </>
      }
    >
      <form id={form} onSubmit={(event) => void save(event)} className="pt-1">
        <ProjectFields values={values} onChange={setValues} error={error} withKey={withKey} />
        {shown ? <ErrorNote error={shown} className="mt-3" /> : null}
      </form>
    </Dialog>
  );
}
