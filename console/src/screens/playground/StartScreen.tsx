import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { Plus, X } from "lucide-react";
import { type FormEvent, useState } from "react";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { Button, ErrorNote, Field, IconButton, Input, PageBody, PageHeader, Select } from "@/ui";
import { Panel } from "@/ui/Panel";
import { type Picked, VersionPicker } from "../models/VersionPicker";
import { useSessionsChanged } from "./api";
import { startRoute } from "./area";
import { Sessions } from "./Sessions";

const mostColumns = 4;
const lifetimes = ["900", "1800", "3600", "14400"] as const;
type Chosen = Partial<Picked> & { key: number };

// StartScreen opens a session: an engine of its own for each model version.
export function StartScreen() {
  const { t } = useTranslation("playground");
  const search = startRoute.useSearch();
  const { project } = useSearch({ strict: false });
  const navigate = useNavigate();
  const changed = useSessionsChanged();
  const [targets, setTargets] = useState<Chosen[]>([{ key: 0, model: search.model, version: search.version }]);
  const [title, setTitle] = useState("");
  const [lifetime, setLifetime] = useState<(typeof lifetimes)[number]>("1800");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const complete = targets.every((target) => target.model && target.version);
  const start = async (event: FormEvent) => {
    event.preventDefault();
    if (busy || !complete) return;
    setBusy(true);
    setError(null);
    try {
      const made = await call(
        api.POST("/api/playground/sessions", {
          body: {
            project: project ?? "default",
            title: title.trim(),
            ttl_s: Number(lifetime),
            targets: targets.map(({ model = "", version = 0 }) => ({ source: { model_id: model, version } })),
          },
        }),
      );
      await changed();
      await navigate({ to: "/playground/$session", params: { session: made.id } });
    } catch (thrown) {
      setError(thrown);
      setBusy(false);
    }
  };
  const put = (key: number, value: Partial<Picked>) =>
    setTargets(targets.map((target) => (target.key === key ? { key, ...value } : target)));
  return (
    <div className="scroll-thin min-h-0 flex-1 overflow-auto">
      <PageHeader name={t("title")}>
        <p className="max-w-prose text-sm text-soft">{t("why")}</p>
      </PageHeader>
      <PageBody>
        <form onSubmit={(event) => void start(event)} className="grid max-w-2xl gap-3 rounded-lg border bg-card p-4">
          {targets.map((target, at) => (
            <div key={target.key} className="flex items-end gap-2">
              <div className="min-w-0 flex-1">
                <VersionPicker value={target} onChange={(value) => put(target.key, value)} project={project} />
              </div>
              {targets.length > 1 ? (
                <IconButton
                  label={t("removeColumn", { number: at + 1 })}
                  icon={<X size={14} aria-hidden />}
                  onClick={() => setTargets(targets.filter((other) => other.key !== target.key))}
                />
              ) : null}
            </div>
          ))}
          {targets.length < mostColumns ? (
            <div>
              <Button
                size="sm"
                icon={<Plus size={13} aria-hidden />}
                onClick={() => setTargets([...targets, { key: Math.max(...targets.map((o) => o.key)) + 1 }])}
              >
                {t("addColumn")}
              </Button>
            </div>
          ) : null}
          <div className="grid gap-3 sm:grid-cols-[minmax(0,2fr)_minmax(0,1fr)]">
            <Field label={t("sessionTitle")}>
              {(control) => (
                <Input {...control} maxLength={128} value={title} onChange={(e) => setTitle(e.target.value)} />
              )}
            </Field>
            <Field label={t("lifetime")}>
              {(control) => (
                <Select
                  {...control}
                  label={t("lifetime")}
                  value={lifetime}
                  onChange={setLifetime}
                  options={lifetimes.map((value) => ({ value, label: t(`lifetimes.${value}`) }))}
                />
              )}
            </Field>
          </div>
          {error ? <ErrorNote error={error} /> : null}
          <div className="flex items-center gap-3">
            <Button variant="primary" type="submit" busy={busy} disabled={!complete}>
              {t("start")}
            </Button>
            <Link to="/models" className="text-sm text-accent hover:underline">
              {t("models")}
            </Link>
          </div>
        </form>
        <Panel title={t("sessions")}>
          <Sessions />
        </Panel>
      </PageBody>
    </div>
  );
}
