import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { Button, EmptyState, ErrorNote, Markdown, Textarea, Time, UntrustedText } from "@/ui";
import { useUpdate } from "./update";
import type { Run } from "./use-runs";

// NotesTab shows the notes of a run, their authors, and an editor.
export function NotesTab({ run }: { run: Run }) {
  const { t } = useTranslation("runs");
  const [draft, setDraft] = useState<string | null>(null);
  if (draft !== null) return <Editor run={run} draft={draft} onDraft={setDraft} />;
  const edit = <Button onClick={() => setDraft(run.notes ?? "")}>{t("notes.edit")}</Button>;
  if (!run.notes) return <EmptyState title={t("notes.none")} why={t("notes.why")} action={edit} />;
  return (
    <div className="grid items-start gap-5 px-4 py-4 md:px-6 xl:grid-cols-[minmax(0,1fr)_18rem]">
      <div className="min-w-0 rounded-lg border bg-card px-4 py-3">
        <Markdown text={run.notes} />
      </div>
      <aside className="grid gap-3" aria-label={t("notes.versions")}>
        <div>{edit}</div>
        <Versions run={run} />
      </aside>
    </div>
  );
}

function Versions({ run }: { run: Run }) {
  const { t } = useTranslation("runs");
  const { data } = useQuery({
    queryKey: ["run", run.id, "notes", run.notes_version],
    queryFn: ({ signal }) =>
      call(api.GET("/api/runs/{run_id}/notes", { params: { path: { run_id: run.id }, query: { limit: 50 } }, signal })),
  });
  return (
    <ol className="grid gap-1 text-xs text-soft">
      {(data ?? []).map((version) => (
        <li key={version.version} className="flex justify-between gap-2">
          <span>
            {t("notes.version", { version: version.version })} <UntrustedText text={version.author} />
          </span>
          <Time at={version.created_at} />
        </li>
      ))}
    </ol>
  );
}

type EditorProps = { run: Run; draft: string; onDraft: (draft: string | null) => void };

function Editor({ run, draft, onDraft }: EditorProps) {
  const { t } = useTranslation("runs");
  const update = useUpdate(run);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const save = async () => {
    setBusy(true);
    setError(null);
    try {
      await update({ notes: draft });
      onDraft(null);
    } catch (thrown) {
      setError(thrown);
    } finally {
      setBusy(false);
    }
  };
  return (
    <div className="grid gap-3 px-4 py-4 md:px-6">
      <Textarea
        aria-label={t("notes.label")}
        rows={16}
        className="font-mono"
        value={draft}
        onChange={(event) => onDraft(event.target.value)}
      />
      {error ? <ErrorNote error={error} /> : null}
      <div className="flex gap-2">
        <Button variant="primary" busy={busy} onClick={() => void save()}>
          {t("save")}
        </Button>
        <Button onClick={() => onDraft(null)}>{t("cancel")}</Button>
      </div>
    </div>
  );
}
