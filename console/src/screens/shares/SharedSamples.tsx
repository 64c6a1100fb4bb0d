import { useState } from "react";
import { useTranslation } from "react-i18next";
import { call } from "@/api/client";
import { byId, usePages } from "@/api/pages";
import { ErrorNote, LoadMore, Num, Select, SkeletonLines, UntrustedText } from "@/ui";
import type { Shared, SharedSample } from "./api";
import { open } from "./public";

const size = 20;

export function SharedSamples({ token, shared }: { token: string; shared: Shared }) {
  const { t } = useTranslation("shares");
  const [run, setRun] = useState("0");
  const list = usePages<SharedSample, string | undefined>(
    ["share", token, "samples", run],
    size,
    undefined,
    async (limit, after, signal) => {
      const params = { path: { token }, query: { run: Number(run), limit, after } };
      return byId(await call(open.GET("/api/share/{token}/samples", { params, signal })), size);
    },
  );
  return (
    <section aria-label={t("field.samples")} className="grid gap-2">
      <div className="flex items-center gap-3">
        <h2 className="text-sm font-semibold">{t("field.samples")}</h2>
        {shared.runs.length > 1 ? (
          <Select
            size="sm"
            label={t("run")}
            value={run}
            onChange={setRun}
            options={shared.runs.map((r, at) => ({
              value: String(at),
              label: <UntrustedText text={r.name} longest={64} />,
            }))}
          />
        ) : null}
      </div>
      {list.error && list.rows.length === 0 ? <ErrorNote error={list.error} /> : null}
      {list.pending ? <SkeletonLines lines={4} /> : null}
      {!list.pending && !list.error && list.rows.length === 0 ? (
        <p className="text-sm text-soft">{t("noSamples")}</p>
      ) : null}
      <ul className="grid gap-2">
        {list.rows.map((sample) => (
          <li key={sample.id} className="grid gap-1 rounded-lg border bg-card px-3 py-2 text-sm">
            <span className="flex gap-4 text-xs text-soft">
              <span>{t("sampleAt", { step: sample.step, index: sample.index })}</span>
              {sample.reward !== null ? (
                <span className="ml-auto">
                  {t("reward")} <Num value={sample.reward} />
                </span>
              ) : null}
            </span>
            <Part name={t("user")} value={sample.user} />
            <Part name={t("model")} value={sample.assistant} />
            {sample.truncated ? <p className="text-xs text-soft">{t("cutText")}</p> : null}
          </li>
        ))}
      </ul>
      {!list.more && shared.runs[Number(run)]?.more_samples ? (
        <p className="text-xs text-soft">{t("moreSamples")}</p>
      ) : null}
      <LoadMore more={list.more} busy={list.loadingMore} onMore={list.loadMore} />
    </section>
  );
}

function Part({ name, value }: { name: string; value: unknown }) {
  if (value === null || value === undefined) return null;
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 1);
  return (
    <p className="grid grid-cols-[4rem_minmax(0,1fr)] gap-2">
      <span className="text-xs leading-5 text-soft">{name}</span>
      <UntrustedText text={text} longest={4000} className="break-words whitespace-pre-wrap" />
    </p>
  );
}
