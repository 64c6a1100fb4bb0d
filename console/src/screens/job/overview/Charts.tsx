import { Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { ErrorNote, ReconnectingBar, SkeletonLines } from "@/ui";
import type { Run } from "../api";
import { ResetZoom } from "../charts/ChartBar";
import { MetricCard } from "../charts/MetricCard";
import { useSummaries } from "../charts/summaries";
import { useLive } from "../charts/use-live";
import type { ChartView } from "../charts/view";
import { chosen } from "./chosen";
import { usePatterns } from "./use-patterns";

type Props = { run: Run; live: boolean; to: "/jobs/$id/{-$tab}" | "/runs/$id/{-$tab}"; page: string };

// Charts are the curves that tell how a run is doing. All metrics are in their own tab.
export default function Charts({ run, live: reporting, to, page }: Props) {
  const { t } = useTranslation("job");
  const { summaries, error } = useSummaries(run.id, reporting);
  const live = useLive(run.id, reporting, summaries);
  const patterns = usePatterns(run);
  const [view, setView] = useState<ChartView>({});
  const keys = useMemo(
    () =>
      chosen(
        (summaries ?? []).map((s) => s.key),
        patterns ?? [],
      ),
    [summaries, patterns],
  );
  if (error && !summaries) return <ErrorNote error={error} />;
  if (!summaries || !patterns) return <SkeletonLines lines={6} />;
  if (summaries.length === 0)
    return <p className="text-soft">{t(reporting ? "metrics.noneYet" : "metrics.noneEver")}</p>;
  const change = (next: Partial<ChartView>) => setView((before) => ({ ...before, ...next }));
  const origin = Date.parse(run.started_at ?? run.created_at);
  return (
    <>
      <ReconnectingBar state={live.state} />
      <div className="grid grid-cols-[repeat(auto-fill,minmax(min(100%,21rem),1fr))] gap-3">
        {keys.map((key) => {
          const summary = summaries.find((s) => s.key === key);
          return summary ? (
            <MetricCard
              key={key}
              id={run.id}
              summary={summary}
              view={view}
              origin={origin}
              live={live}
              onView={change}
              points={600}
            />
          ) : null;
        })}
      </div>
      <div className="mt-2 flex min-h-7 flex-wrap items-center gap-x-4 gap-y-1">
        <Link to={to} params={{ id: page, tab: "metrics" }} className="text-sm text-accent hover:underline">
          {t("curves.all", { count: summaries.length })}
        </Link>
        <span className="text-xs text-soft">{t("curves.hint")}</span>
        <span className="ml-auto">
          <ResetZoom view={view} onView={change} size="sm" />
        </span>
      </div>
    </>
  );
}
