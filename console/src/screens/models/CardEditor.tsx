import { useState } from "react";
import { useTranslation } from "react-i18next";
import type { ModelVersion } from "@/api/models";
import { Button, Dialog, ErrorNote, Markdown, Tabs, Textarea } from "@/ui";
import { putCard, useModelsChanged } from "./api";

type Props = { version: ModelVersion; start: string; etag: string | null; onClose: () => void };

export default function CardEditor({ version, start, etag, onClose }: Props) {
  const { t } = useTranslation("models");
  const changed = useModelsChanged();
  const [text, setText] = useState(start);
  const [view, setView] = useState<"write" | "preview">("write");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const save = async () => {
    setBusy(true);
    setError(null);
    try {
      await putCard(version.model_id, version.version, text, etag);
      await changed();
      onClose();
    } catch (thrown) {
      setError(thrown);
      setBusy(false);
    }
  };
  return (
    <Dialog
      open
      sticky
      size="lg"
      onOpenChange={(open) => !open && !busy && onClose()}
      title={t("editCard")}
      description={t("cardHint")}
      footer={
        <>
          <Button onClick={onClose}>{t("cancel")}</Button>
          <Button variant="primary" busy={busy} disabled={text === start} onClick={() => void save()}>
            {t("save")}
          </Button>
        </>
      }
    >
      <Tabs<"write" | "preview">
        label={t("editCard")}
        value={view}
        onChange={setView}
        tabs={[
          {
            value: "write",
            label: t("write"),
            content: (
              <Textarea
                aria-label={t("tabs.card")}
                spellCheck={false}
                className="h-[45vh] font-mono text-xs"
                value={text}
                onChange={(event) => setText(event.target.value)}
              />
            ),
          },
          {
            value: "preview",
            label: t("preview"),
            content: <Markdown text={text.replace(/^---\n[\s\S]*?\n---\n/, "")} className="min-h-[45vh]" />,
          },
        ]}
      />
      {error ? <ErrorNote error={error} className="mt-3" /> : null}
    </Dialog>
  );
}
