import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, call, type Schemas } from "@/api/client";
import { Button, Checkbox, CodeBlock, Dialog, ErrorNote, Field, Input, Select } from "@/ui";
import { useOnceKey } from "./once";

const fields = ["metrics", "config", "samples"] as const;
type ShareField = (typeof fields)[number];
const lifetimes = ["1", "7", "30", "never"] as const;

type Props = { kind: "job" | "comparison"; targets: string[]; onClose: () => void };

// ShareDialog creates a link that shows a job or a comparison without signing in. The link is shown only once.
export function ShareDialog({ kind, targets, onClose }: Props) {
  const { t } = useTranslation("job");
  const [chosen, setChosen] = useState<ReadonlySet<ShareField>>(new Set(["metrics", "config"]));
  const [days, setDays] = useState<(typeof lifetimes)[number]>("7");
  const [pinned, setPinned] = useState(false);
  const [title, setTitle] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const [share, setShare] = useState<Schemas["Share"] | null>(null);
  const [key, renew] = useOnceKey();

  const create = async () => {
    setBusy(true);
    setError(null);
    try {
      const expires = days === "never" ? null : new Date(Date.now() + Number(days) * 86_400_000).toISOString();
      const body = {
        kind,
        target_ids: targets,
        fields: fields.filter((f) => chosen.has(f)),
        expires_at: expires,
        pinned,
        title: title.trim() || null,
      };
      setShare(await call(api.POST("/api/shares", { params: { header: { "Idempotency-Key": key } }, body })));
    } catch (thrown) {
      setError(thrown);
      renew();
    } finally {
      setBusy(false);
    }
  };

  if (share)
    return (
      <Dialog
        open
        sticky
        onOpenChange={(open) => !open && onClose()}
        title={t("share.made")}
        description={t("share.once")}
        footer={
          <Button variant="primary" onClick={onClose}>
            {t("share.done")}
          </Button>
        }
      >
        <CodeBlock
          code={share.token ? `${location.origin}/share/${share.token}` : share.prefix}
          label={t("share.link")}
        />
      </Dialog>
    );
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && !busy && onClose()}
      title={t(`share.title.${kind}`)}
      description={t("share.what")}
      footer={
        <>
          <Button onClick={onClose}>{t("cancel")}</Button>
          <Button variant="primary" busy={busy} disabled={chosen.size === 0} onClick={() => void create()}>
            {t("share.make")}
          </Button>
        </>
      }
    >
      <div className="grid gap-3">
        <fieldset className="grid gap-1">
          <legend className="mb-1 text-sm font-medium">{t("share.fields")}</legend>
          {fields.map((field) => (
            <Checkbox
              key={field}
              showLabel
              label={t(`share.field.${field}`)}
              checked={chosen.has(field)}
              onChange={(on) => {
                const next = new Set(chosen);
                if (on) next.add(field);
                else next.delete(field);
                setChosen(next);
              }}
            />
          ))}
        </fieldset>
        <Field label={t("share.expires")}>
          {({ id }) => (
            <Select
              id={id}
              value={days}
              onChange={setDays}
              options={lifetimes.map((value) => ({ value, label: t(`share.days.${value}`) }))}
            />
          )}
        </Field>
        <Field label={t("share.titleField")} hint={t("share.titleHint")}>
          {(control) => <Input {...control} value={title} maxLength={128} onChange={(e) => setTitle(e.target.value)} />}
        </Field>
        <Checkbox showLabel label={t("share.pinned")} checked={pinned} onChange={setPinned} />
        {error ? <ErrorNote error={error} /> : null}
      </div>
    </Dialog>
  );
}
