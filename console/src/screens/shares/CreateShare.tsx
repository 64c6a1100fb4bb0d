import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { problemOf } from "@/api/error";
import { Button, Checkbox, CodeBlock, Dialog, Field, Input, Select, Textarea } from "@/ui";
import { FormDialog } from "@/ui/FormDialog";
import { fields, type Field as Shown, targetsOf } from "./api";

const lifetimes = ["never", "1", "7", "30"] as const;
type Props = { targets?: string[]; onClose: () => void; onCreated: () => Promise<unknown> };

// CreateShare makes a public link and shows it once. Other screens open it with the jobs or runs to share.
export function CreateShare({ targets = [], onClose, onCreated }: Props) {
  const { t } = useTranslation("shares");
  const [ids, setIds] = useState(targets.join("\n"));
  const [title, setTitle] = useState("");
  const [shown, setShown] = useState<ReadonlySet<Shown>>(new Set(["metrics", "config"]));
  const [pinned, setPinned] = useState(false);
  const [days, setDays] = useState<(typeof lifetimes)[number]>("30");
  const [link, setLink] = useState<string | null>(null);
  if (link !== null) return <Link url={link} onClose={onClose} />;
  const toggle = (field: Shown, on: boolean) => {
    const next = new Set(shown);
    if (on) next.add(field);
    else next.delete(field);
    setShown(next);
  };
  const save = async () => {
    const target_ids = targetsOf(ids);
    const body = {
      kind: target_ids.length > 1 ? ("comparison" as const) : ("job" as const),
      target_ids,
      title: title.trim() || null,
      fields: fields.filter((field) => shown.has(field)),
      pinned,
      expires_at: days === "never" ? null : new Date(Date.now() + Number(days) * 86_400_000).toISOString(),
    };
    const share = await call(api.POST("/api/shares", { body }));
    await onCreated();
    setLink(`${location.origin}/share/${share.token ?? ""}`);
  };
  return (
    <FormDialog
      title={t("create")}
      description={t("createWhy")}
      action={t("createAction")}
      onClose={() => undefined}
      onCancel={onClose}
      onSave={save}
    >
      {(error) => (
        <>
          <Field label={t("targets")} hint={t("targetsHint")} error={problemOf(error, "body", "target_ids")}>
            {(control) => (
              <Textarea
                {...control}
                autoFocus
                required
                spellCheck={false}
                maxLength={2000}
                value={ids}
                onChange={(e) => setIds(e.target.value)}
                className="font-mono text-xs"
              />
            )}
          </Field>
          <Field label={t("shareTitle")} hint={t("shareTitleHint")} error={problemOf(error, "body", "title")}>
            {(control) => (
              <Input {...control} maxLength={128} value={title} onChange={(e) => setTitle(e.target.value)} />
            )}
          </Field>
          <fieldset className="grid gap-1">
            <legend className="text-sm font-medium">{t("shows")}</legend>
            {fields.map((field) => (
              <Checkbox
                key={field}
                showLabel
                label={t(`field.${field}`)}
                checked={shown.has(field)}
                disabled={shown.size === 1 && shown.has(field)}
                onChange={(on) => toggle(field, on)}
              />
            ))}
          </fieldset>
          <Field label={t("expires")}>
            {(control) => (
              <Select
                id={control.id}
                value={days}
                onChange={setDays}
                options={lifetimes.map((value) => ({ value, label: t(`lifetime.${value}`) }))}
              />
            )}
          </Field>
          <Checkbox showLabel label={t("pin")} checked={pinned} onChange={setPinned} />
        </>
      )}
    </FormDialog>
  );
}

function Link({ url, onClose }: { url: string; onClose: () => void }) {
  const { t } = useTranslation("shares");
  return (
    <Dialog
      open
      sticky
      size="md"
      onOpenChange={(open) => !open && onClose()}
      title={t("created")}
      description={t("createdWhy")}
      footer={
        <Button variant="primary" onClick={onClose}>
          {t("done")}
        </Button>
      }
    >
      <CodeBlock code={url} label={t("link")} />
    </Dialog>
  );
}
