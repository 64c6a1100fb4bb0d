import { useCallback, useDeferredValue, useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { Button, EmptyState, ErrorPanel, ReconnectingBar, SkeletonLines } from "@/ui";
import { useRun } from "../api";
import type { TabProps } from "../tabs";
import { ChartBar } from "./ChartBar";
import { ExportMetrics } from "./ExportMetrics";
import { Grid } from "./Grid";
import { MetricCard } from "./MetricCard";
import { general, sections } from "./sections";
import { mostKeys, type Summary, useFirstSummaries, useSummaries } from "./summaries";
import { useCharts, usePins } from "./use-charts";
import { useLive } from "./use-live";

// MetricsTab has a chart for each metric of a run. The first ones are drawn while the other metrics are still read.
export function MetricsTab({ runId, live: reporting }: TabProps) {
  const { t } = useTranslation("job");
  const run = useRun(runId);
  const { summaries: all, error, refetch } = useSummaries(runId, reporting);
  const first = useFirstSummaries(runId);
  const summaries = all ?? first;
  const live = useLive(runId, reporting, all);
  const project = run.data?.project ?? "";
  if (error && !all) return <ErrorPanel error={error} onRetry={() => void refetch()} />;
  if (!summaries || !run.data) return <SkeletonLines className="px-4 pt-4 md:px-6" />;
  if (summaries.length === 0)
    return (
      <EmptyState
        title={t("metrics.none")}
        why={t(reporting ? "metrics.noneYet" : "metrics.noneEver")}
        command={'import signalbox\nsignalbox.log({"train/loss": loss}, step=step)'}
        docs="/docs"
      />
    );
  const origin = Date.parse(run.data.started_at ?? run.data.created_at);
  return (
    <>
      <ReconnectingBar state={live.state} />
      <Charts
        key={project}
        project={project}
        origin={origin}
        runId={runId}
        summaries={summaries}
        complete={all !== undefined}
        live={live}
      />
    </>
  );
}

type ChartsProps = {
  project: string;
  origin: number;
  runId: string;
  summaries: readonly Summary[];
  complete: boolean;
  live: ReturnType<typeof useLive>;
};

function Charts({ project, origin, runId, summaries, complete, live }: ChartsProps) {
  const { t } = useTranslation("job");
  const [view, onView] = useCharts(project);
  const [pins, pin] = usePins(project);
  const byKey = useMemo(() => new Map(summaries.map((s) => [s.key, s])), [summaries]);
  const keys = useMemo(() => [...byKey.keys()], [byKey]);
  // The address follows the search a moment later.
  const [typed, setTyped] = useState(view.key ?? "");
  const words = useDeferredValue(typed);
  const groups = useMemo(() => sections(keys, words), [keys, words]);
  const search = useCallback((key: string) => onView({ key: key || undefined }), [onView]);
  const pinned = groups.flatMap((g) => g.keys).filter((key) => pins.includes(key));
  const shown = [
    ...(pinned.length > 0 ? [{ name: "pinned", title: t("metrics.pinned"), keys: pinned }] : []),
    ...groups.map((g) => ({
      ...g,
      name: `section/${g.name}`,
      title: g.name === general ? t("metrics.general") : g.name,
    })),
  ];
  // A pinned metric that is still read would push the others down.
  if (!complete && pins.some((key) => !byKey.has(key))) return <SkeletonLines className="px-4 pt-4 md:px-6" />;
  return (
    <div className="pt-3 pb-6">
      <ChartBar
        view={view}
        onView={onView}
        onSearch={search}
        onTyped={setTyped}
        keys={keys}
        end={<ExportMetrics runId={runId} />}
      />
      {summaries.length >= mostKeys ? (
        <p className="px-4 pb-2 text-xs text-soft md:px-6">{t("metrics.first", { count: mostKeys })}</p>
      ) : null}
      {groups.length === 0 && complete ? (
        <EmptyState
          title={t("metrics.noMatch")}
          why={t("metrics.noMatchWhy")}
          action={<Button onClick={() => search("")}>{t("clearFilters")}</Button>}
        />
      ) : null}
      {shown.map((group) => (
        <Grid key={group.name} title={group.title} keys={group.keys}>
          {(key, points) => {
            const summary = byKey.get(key);
            return summary ? (
              <MetricCard
                key={key}
                id={runId}
                summary={summary}
                view={view}
                origin={origin}
                live={live}
                onView={onView}
                points={points}
                pinned={pins.includes(key)}
                onPin={pin}
              />
            ) : null;
          }}
        </Grid>
      ))}
      {complete ? null : <SkeletonLines className="px-4 md:px-6" />}
    </div>
  );
}
