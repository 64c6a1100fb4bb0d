import { Trash2 } from "lucide-react";
import { type FormEvent, useState } from "react";
import { useTranslation } from "react-i18next";
import { Button, ErrorNote, Field, Textarea, toast } from "@/ui";
import { Panel } from "@/ui/Panel";
import { describe, useChanged } from "./api";
import type { Deployment } from "./deployment";
import { RemoveDialog } from "./RemoveDialog";

type Props = { deployment: Deployment; etag: string | null };

export default function Settings({ deployment, etag }: Props) {
  return (
    <div className="grid max-w-2xl gap-8">
      <Description deployment={deployment} etag={etag} />
      <Remove deployment={deployment} etag={etag} />
    </div>
  );
}

function Description({ deployment, etag }: Props) {
  const { t } = useTranslation("deployments");
  const changed = useChanged();
  const [text, setText] = useState(deployment.description);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const save = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      await describe(deployment.id, text.trim(), etag);
      toast.success(t("saved"));
    } catch (thrown) {
      setError(thrown);
    }
    await changed();
    setBusy(false);
  };
  return (
    <form onSubmit={(event) => void save(event)} className="grid gap-3">
      <Field label={t("description")}>
        {(control) => <Textarea {...control} maxLength={4096} value={text} onChange={(e) => setText(e.target.value)} />}
      </Field>
      {error ? <ErrorNote error={error} /> : null}
      <div>
        <Button type="submit" variant="primary" busy={busy} disabled={text.trim() === deployment.description}>
          {t("save")}
        </Button>
      </div>
    </form>
  );
}

function Remove({ deployment, etag }: Props) {
  const { t } = useTranslation("deployments");
  const [open, setOpen] = useState(false);
  const serving = deployment.state !== "suspended" && deployment.promoted_revision !== null;
  return (
    <Panel title={t("delete")}>
      <p className="mb-2 text-sm text-soft">{serving ? t("deleteSuspendFirst") : t("deleteWhy")}</p>
      <Button
        variant="secondary"
        className="text-bad"
        disabled={serving}
        icon={<Trash2 size={13} aria-hidden />}
        onClick={() => setOpen(true)}
      >
        {t("delete")}
      </Button>
      {open ? <RemoveDialog deployment={deployment} etag={etag} onClose={() => setOpen(false)} /> : null}
    </Panel>
  );
}
