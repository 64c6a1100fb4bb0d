import { useState } from "react";
import { useTranslation } from "react-i18next";
import { Button, ConfirmDialog, ErrorNote, Field, Textarea, toast, UntrustedText } from "@/ui";
import { useAdminChanged } from "./api";
import { ChangeTable } from "./ChangeTable";
import { byKey, type Loaded, type Outcome, parseConfig, storeHardware, textOfConfig } from "./hardware";

// HardwareEditor changes the whole document. The user reviews what differs from the version that was loaded; a change that
// affects unfinished jobs must be confirmed; a change by another admin since then is never overwritten unseen.
export function HardwareEditor({ loaded, onDone }: { loaded: Loaded; onDone: () => void }) {
  const { t } = useTranslation("admin");
  const changed = useAdminChanged();
  const [base, setBase] = useState(loaded);
  const [text, setText] = useState(() => textOfConfig(loaded.config));
  const [open, setOpen] = useState(false);
  const [outcome, setOutcome] = useState<Outcome | null>(null);
  const [error, setError] = useState<unknown>(null);
  const config = parseConfig(text);
  const same = text === textOfConfig(base.config);
  const newer = loaded.etag !== base.etag;

  const store = async (confirm: string | null) => {
    if (!config) return;
    setError(null);
    try {
      const result = await storeHardware(config, base.etag, confirm);
      setOutcome(result.kind === "stored" ? null : result);
      await changed();
      if (result.kind !== "stored") return;
      toast.success(t("hardwareStored"));
      onDone();
    } catch (thrown) {
      setError(thrown);
    }
  };
  return (
    <div className="grid max-w-4xl gap-3">
      {newer ? (
        <div role="alert" className="grid gap-2 rounded-md bg-warn-tint px-3 py-2 text-sm text-warn">
          <p>{t("hardwareConflict")}</p>
          <ChangeTable before={byKey(base.config)} after={byKey(loaded.config)} />
          <div className="flex gap-2">
            <Button
              size="sm"
              onClick={() => {
                setBase(loaded);
                setText(textOfConfig(loaded.config));
                setOutcome(null);
              }}
            >
              {t("takeTheirs")}
            </Button>
            <Button size="sm" onClick={() => setBase(loaded)}>
              {t("keepMine")}
            </Button>
          </div>
        </div>
      ) : null}
      <Field label={t("document")} hint={t("documentHint")} error={config ? null : t("notDocument")}>
        {(control) => (
          <Textarea
            {...control}
            spellCheck={false}
            rows={24}
            value={text}
            onChange={(event) => {
              setText(event.target.value);
              setOutcome(null);
            }}
            className="font-mono text-xs"
          />
        )}
      </Field>
      {error ? <ErrorNote error={error} /> : null}
      <div className="flex gap-2">
        <Button variant="primary" disabled={!config || same || newer} onClick={() => setOpen(true)}>
          {t("review")}
        </Button>
        <Button onClick={onDone}>{t("cancel", { ns: "app" })}</Button>
      </div>
      <ConfirmDialog
        open={open && config !== null}
        onOpenChange={setOpen}
        title={t("reviewTitle")}
        action={t("save")}
        onConfirm={() => store(null)}
      >
        {config ? <ChangeTable before={byKey(base.config)} after={byKey(config)} /> : null}
      </ConfirmDialog>
      <ConfirmDialog
        open={!open && outcome?.kind === "impact"}
        onOpenChange={() => setOutcome(null)}
        title={t("impactTitle")}
        description={t("impactWhy")}
        action={t("impactConfirm")}
        danger
        onConfirm={() => store(outcome?.kind === "impact" ? outcome.confirm : null)}
      >
        <p className="rounded-md bg-warn-tint px-3 py-2 text-sm text-warn">
          <UntrustedText text={outcome?.kind === "impact" ? outcome.detail : ""} longest={4000} />
        </p>
      </ConfirmDialog>
    </div>
  );
}
