import { useQueries } from "@tanstack/react-query";
import { memo, useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { useFormats } from "@/lib/prefs";
import { axisTexts } from "@/screens/job/charts/axis";
import { ChartCard } from "@/screens/job/charts/ChartCard";
import { toCurve } from "@/screens/job/charts/curve";
import { type Line, plotData } from "@/screens/job/charts/plot-data";
import { cardHeight, Slot } from "@/screens/job/charts/Slot";
import { seriesQuery } from "@/screens/job/charts/series";
import { axisOf, type ChartView, toWindow } from "@/screens/job/charts/view";
import { Legend } from "./Legend";
import type { Compared } from "./use-compared";
import { useSame } from "./use-same";

type Props = {
  name: string;
  runs: readonly Compared[];
  view: ChartView;
  points: number;
  onView: (change: Partial<ChartView>) => void;
};

const every = 2000;

// CompareCard is the chart of one metric of several runs. The values at the cursor are listed, the highest first.
export const CompareCard = memo((props: Props) => (
  <Slot name={props.name}>{(drawn) => <Full {...props} drawn={drawn} />}</Slot>
));

function Full({ name, runs, view, points, onView, drawn }: Props & { drawn: boolean }) {
  const { t } = useTranslation("job");
  const { tag, zone } = useFormats();
  const [cursor, setCursor] = useState<{ row: number; own: boolean } | null>(null);
  const { lines, error } = useLines(name, runs, view, points);
  const { x = "step", smooth = 0, logx = false, logy = false } = view;
  const places = useMemo(
    () => plotData(lines, { smoothing: smooth, logX: logx, logY: logy })[0],
    [lines, smooth, logx, logy],
  );
  const place = cursor ? places[cursor.row] : undefined;
  return (
    <ChartCard
      name={name}
      lines={lines}
      view={view}
      drawn={drawn}
      error={error}
      height={cardHeight}
      label={t("chart.label", { name, count: lines.reduce((sum, l) => sum + l.curve.total, 0) })}
      reading={place === undefined ? "" : axisTexts([place], x, tag, zone)[0]}
      onCursor={(row, own) => setCursor(row === null ? null : { row, own })}
      onView={onView}
      overlay={cursor?.own && place !== undefined ? <Legend lines={lines} place={place} /> : null}
    />
  );
}

function useLines(name: string, runs: readonly Compared[], view: ChartView, points: number) {
  const { x = "step" } = view;
  const having = runs.filter((run) => run.summaries.has(name));
  const results = useQueries({
    queries: having.map((run) => ({
      ...seriesQuery(
        run.id,
        name,
        { points, x: axisOf(view), ...toWindow(view, originOf(run)) },
        run.live ? every : false,
      ),
    })),
  });
  const data = results.map((result) => result.data);
  const state = useSame([...data, ...having.map((run) => run.ink), ...having.map((run) => run.id)]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: state and x are all that the lines are made of
  const lines = useMemo(
    () =>
      having.flatMap((run, at): Line[] => {
        const series = data[at];
        if (!series) return [];
        return [{ id: run.id, name: run.run.name, ...run.ink, curve: toCurve(series, [], x, originOf(run)) }];
      }),
    [x, state],
  );
  return { lines, error: results.find((result) => result.error)?.error };
}

function originOf({ run }: Compared): number {
  return Date.parse(run.started_at ?? run.created_at);
}
