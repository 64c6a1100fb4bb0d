import { useState } from "react";
import { useTranslation } from "react-i18next";
import { Button, ErrorNote, SkeletonLines } from "@/ui";
import { type Shared, useLines } from "./api";
import { SharedChart } from "./SharedChart";

const perPage = 12;

export function SharedMetrics({ token, shared }: { token: string; shared: Shared }) {
  const { t } = useTranslation("shares");
  const lines = useLines(token, shared);
  const [shown, setShown] = useState(perPage);
  return (
    <section aria-label={t("field.metrics")} className="grid gap-2">
      <h2 className="text-sm font-semibold">{t("field.metrics")}</h2>
      {lines.error && !lines.data ? <ErrorNote error={lines.error} /> : null}
      {lines.isPending ? <SkeletonLines lines={4} /> : null}
      {lines.data?.length === 0 ? <p className="text-sm text-soft">{t("noMetrics")}</p> : null}
      <div className="grid gap-3 sm:grid-cols-2 lg:grid-cols-3">
        {lines.data?.slice(0, shown).map(([key, group]) => (
          <SharedChart key={key} name={key} lines={group} runs={shared.runs} />
        ))}
      </div>
      {(lines.data?.length ?? 0) > shown ? (
        <div>
          <Button size="sm" onClick={() => setShown(shown + perPage)}>
            {t("moreCharts")}
          </Button>
        </div>
      ) : null}
    </section>
  );
}
