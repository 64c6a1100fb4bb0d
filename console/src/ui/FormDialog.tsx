import { type FormEvent, type ReactNode, useId, useState } from "react";
import { useTranslation } from "react-i18next";
import { type ApiError, toApiError } from "@/api/error";
import { Button } from "./Button";
import { Dialog } from "./Dialog";
import { ErrorNote } from "./ErrorNote";

type Props = {
  title: string;
  description?: ReactNode;
  action: string;
  danger?: boolean;
  size?: "sm" | "md" | "lg";
  onClose: () => void;
  // onCancel is called if the user closes the dialog; by default onClose. A dialog that stays after it is saved sets it.
  onCancel?: () => void;
  // onSave sends the form. The dialog closes unless it throws.
  onSave: () => Promise<unknown>;
  // children gets the error of the last try, for the fields that it belongs to.
  children: (error: ApiError | null) => ReactNode;
};

// FormDialog is a form in a dialog, which stays open until it is saved. Errors of fields are shown by the fields.
export function FormDialog({ title, description, action, danger, size, onClose, onCancel, onSave, children }: Props) {
  const { t } = useTranslation();
  const cancel = onCancel ?? onClose;
  const form = useId();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError | null>(null);
  const save = async (event: FormEvent) => {
    event.preventDefault();
    if (busy) return;
    setBusy(true);
    setError(null);
    try {
      await onSave();
      setBusy(false);
      onClose();
    } catch (thrown) {
      setBusy(false);
      setError(toApiError(thrown));
    }
  };
  return (
    <Dialog
      open
      sticky
      size={size}
      onOpenChange={(open) => !open && !busy && cancel()}
      title={title}
      description={description}
      footer={
        <>
          <Button onClick={cancel}>{t("cancel")}</Button>
          <Button variant={danger ? "danger" : "primary"} type="submit" form={form} busy={busy}>
            {action}
          </Button>
        </>
      }
    >
      <form id={form} onSubmit={(event) => void save(event)} className="grid gap-3 pt-1">
        {children(error)}
        {error ? <ErrorNote error={error} /> : null}
      </form>
    </Dialog>
  );
}
