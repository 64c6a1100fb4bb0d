import { useNavigate } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { toApiError } from "@/api/error";
import { useOnceKey } from "@/screens/job/actions/once";
import { Button, ErrorNote, PageHeader, UntrustedText } from "@/ui";
import { ViewTabs } from "@/ui/ViewTabs";
import { submitJob, usePreflight } from "./api";
import { forms, submitRoute } from "./area";
import { parse, set } from "./document";
import { FormView } from "./FormView";
import { Gates } from "./Gates";
import type { Recipe } from "./start";
import { YamlView } from "./YamlView";

// Composer holds the YAML of a submission. The form reads its values from this text and writes each change into it, so that
// both views always say the same.
export function Composer({ recipe, start }: { recipe: Recipe; start: string }) {
  const { t } = useTranslation("submit");
  const { view = "form" } = submitRoute.useSearch();
  const navigate = useNavigate({ from: "/submit" });
  const [text, setText] = useState(start);
  const parsed = useMemo(() => parse(text), [text]);
  const preflight = usePreflight(parsed.spec);
  const [busy, setBusy] = useState(false);
  const [thrown, setThrown] = useState<unknown>(null);
  const [key, renew] = useOnceKey();
  const change = (next: string) => {
    setText(next);
    setThrown(null);
  };

  const submit = async () => {
    if (!parsed.spec) return;
    setBusy(true);
    setThrown(null);
    try {
      const job = await submitJob(parsed.spec, key);
      await navigate({ to: "/jobs/$id/{-$tab}", params: { id: job.id, tab: undefined } });
    } catch (failed) {
      setThrown(failed);
      // After a lost response, the same key gets the same job. A refusal is final for its key.
      if (toApiError(failed).status > 0) renew();
      void preflight.refetch();
      setBusy(false);
    }
  };

  const refused = thrown ?? (preflight.isError ? preflight.error : null);
  const error = refused ? toApiError(refused) : null;
  const ready = parsed.spec !== null && !(preflight.current && preflight.data?.ok === false) && !preflight.isError;
  return (
    <>
      <PageHeader
        name={t("title")}
        actions={
          <>
            <Button onClick={() => void navigate({ search: ({ project }) => ({ project }) as never })}>
              {t("otherRecipe")}
            </Button>
            <Button variant="primary" busy={busy} disabled={!ready} onClick={() => void submit()}>
              {t("submit")}
            </Button>
          </>
        }
      >
        <p className="text-sm text-soft">
          <UntrustedText text={recipe.title} longest={128} className="font-medium text-ink" />{" "}
          <span className="font-mono text-xs">
            {recipe.name} {recipe.version}
          </span>
        </p>
      </PageHeader>
      <ViewTabs
        label={t("views")}
        value={view}
        onChange={(next) =>
          void navigate({
            search: (before) => ({ ...before, view: next === "form" ? undefined : next }),
            replace: true,
          })
        }
        views={forms.map((value) => ({ value, label: t(`view.${value}`) }))}
      />
      <div className="grid max-w-[96rem] grid-cols-[minmax(0,1fr)] gap-6 px-4 py-4 md:px-6 lg:grid-cols-[minmax(0,1fr)_22rem]">
        <div className="min-w-0">
          {view === "yaml" || parsed.spec === null ? (
            <YamlView text={text} problem={parsed.problem} onChange={change} />
          ) : (
            <FormView
              recipe={recipe}
              form={{ spec: parsed.spec, error, set: (path, value) => change(set(text, path, value)) }}
            />
          )}
        </div>
        <aside className="grid content-start gap-3 lg:sticky lg:top-4 lg:self-start">
          {thrown ? <ErrorNote error={thrown} /> : null}
          <Gates preflight={preflight} spec={parsed.spec} onRelock={(next) => change(set(text, ["recipe"], next))} />
        </aside>
      </div>
    </>
  );
}
