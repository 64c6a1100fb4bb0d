import { type FormEvent, useEffect, useId, useState } from "react";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { type ApiError, problemOf, toApiError } from "@/api/error";
import { Button, Checkbox, CodeBlock, Dialog, ErrorNote, Field, Input } from "@/ui";
import { useChanged } from "./api";

type Props = { deployment: string; onToken: (secret: string) => void; onClose: () => void };

// NewToken creates a token and shows its secret once. It closes only after the user has confirmed that the secret is stored.
export function NewToken({ deployment, onToken, onClose }: Props) {
  const { t } = useTranslation("deployments");
  const form = useId();
  const changed = useChanged();
  const [name, setName] = useState("");
  const [secret, setSecret] = useState<string | null>(null);
  const [stored, setStored] = useState(false);
  const [warned, setWarned] = useState(false);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError | null>(null);
  const unsafe = secret !== null && !stored;
  useEffect(() => {
    if (!unsafe) return;
    const ask = (event: BeforeUnloadEvent) => event.preventDefault();
    window.addEventListener("beforeunload", ask);
    return () => window.removeEventListener("beforeunload", ask);
  }, [unsafe]);
  const create = async (event: FormEvent) => {
    event.preventDefault();
    if (busy) return;
    setBusy(true);
    setError(null);
    try {
      const made = await call(
        api.POST("/api/model-deployments/{deployment_id}/tokens", {
          params: { path: { deployment_id: deployment } },
          body: { name: name.trim() },
        }),
      );
      if (made.token !== null) {
        setSecret(made.token);
        onToken(made.token);
      }
      // The dialog need not wait for the list behind it.
      void changed();
    } catch (thrown) {
      setError(toApiError(thrown));
    }
    setBusy(false);
  };
  const close = () => {
    if (busy) return;
    if (unsafe) setWarned(true);
    else onClose();
  };
  return (
    <Dialog
      open
      sticky
      size={secret === null ? "sm" : "md"}
      onOpenChange={(open) => !open && close()}
      title={secret === null ? t("newToken") : t("tokenMade")}
      description={secret === null ? t("newTokenWhy") : t("tokenOnce")}
      footer={
        secret === null ? (
          <>
            <Button onClick={onClose}>{t("cancel")}</Button>
            <Button variant="primary" type="submit" form={form} busy={busy}>
              {t("createAction")}
            </Button>
          </>
        ) : (
          <Button variant="primary" disabled={!stored} onClick={onClose}>
            {t("done")}
          </Button>
        )
      }
    >
      {secret === null ? (
        <form id={form} onSubmit={(event) => void create(event)} className="grid gap-3 pt-1">
          <Field label={t("name")} hint={t("tokenNameHint")} error={problemOf(error, "body", "name")}>
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
          {error && error.problems.length === 0 ? <ErrorNote error={error} /> : null}
        </form>
      ) : (
        <div className="grid gap-3 pt-1">
          <CodeBlock code={secret} label={t("token")} />
          <Checkbox showLabel label={t("stored")} checked={stored} onChange={setStored} />
          {warned && !stored ? (
            <p role="alert" className="text-sm text-bad">
              {t("storeFirst")}
            </p>
          ) : null}
        </div>
      )}
    </Dialog>
  );
}
