import { type ReactNode, useState } from "react";
import { useTranslation } from "react-i18next";
import { Button } from "./Button";
import { Dialog } from "./Dialog";
import { ErrorNote } from "./ErrorNote";

type Props = {
  open: boolean;
  onOpenChange: (open: boolean) => void;
  title: ReactNode;
  description?: ReactNode;
  children?: ReactNode;
  action: string;
  danger?: boolean;
  // disabled means that the action is not possible, or not yet.
  disabled?: boolean;
  // onConfirm does the action. The dialog stays open and shows the error if it fails.
  onConfirm: () => Promise<unknown>;
};

export function ConfirmDialog({
  open,
  onOpenChange,
  title,
  description,
  children,
  action,
  danger = false,
  disabled = false,
  onConfirm,
}: Props) {
  const { t } = useTranslation();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const change = (next: boolean) => {
    if (busy) return;
    setError(null);
    onOpenChange(next);
  };
  const confirm = async () => {
    setBusy(true);
    setError(null);
    try {
      await onConfirm();
      onOpenChange(false);
    } catch (thrown) {
      setError(thrown);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Dialog
      open={open}
      onOpenChange={change}
      title={title}
      description={description}
      footer={
        <>
          <Button onClick={() => change(false)}>{t("cancel")}</Button>
          <Button
            variant={danger ? "danger" : "primary"}
            busy={busy}
            disabled={disabled}
            onClick={() => void confirm()}
            autoFocus
          >
            {action}
          </Button>
        </>
      }
    >
      {children}
      {error ? <ErrorNote error={error} /> : null}
    </Dialog>
  );
}
