import { lazy, memo, Suspense, useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { useTheme } from "@/theme/theme";
import { ChartCard } from "./ChartCard";
import { toCurve } from "./curve";
import { LogAt } from "./LogAt";
import { NanBadge } from "./NanBadge";
import type { Line } from "./plot-data";
import { atEnd, useReading } from "./Readout";
import { cardHeight, Slot } from "./Slot";
import { useSeries } from "./series";
import type { Summary } from "./summaries";
import { type Live, useLivePoints } from "./use-live";
import { axisOf, type ChartView, toWindow } from "./view";

const ChartDialog = lazy(() => import("./ChartDialog").then((m) => ({ default: m.ChartDialog })));

export type MetricProps = {
  id: string;
  summary: Summary;
  view: ChartView;
  origin: number;
  live: Live;
  onView: (change: Partial<ChartView>) => void;
};
type Props = MetricProps & { points: number; pinned?: boolean; onPin?: (key: string) => void };

// MetricCard is the chart of one metric. It reads the metric when it is near the visible part of the page.
export const MetricCard = memo((props: Props) => {
  const [open, setOpen] = useState<"chart" | "table" | null>(null);
  return (
    <>
      <Slot name={props.summary.key}>{(drawn) => <Full {...props} drawn={drawn} onOpen={setOpen} />}</Slot>
      <Suspense fallback={null}>{open ? <ChartDialog {...props} tab={open} onTab={setOpen} /> : null}</Suspense>
    </>
  );
});

function Full(props: Props & { drawn: boolean; onOpen: (tab: "chart" | "table") => void }) {
  const { summary, view, onOpen, onPin } = props;
  const { t } = useTranslation("job");
  const { lines, error } = useMetricLines(props, props.points, true);
  const { reading, follow, held, hold } = useFollow(lines, view);
  return (
    <ChartCard
      name={summary.key}
      lines={lines}
      view={view}
      drawn={props.drawn}
      error={error}
      height={cardHeight}
      label={t("chart.label", { name: summary.key, count: summary.count })}
      badge={
        <>
          {summary.nan > 0 ? <NanBadge summary={summary} lines={lines} zoomed={view.from !== undefined} /> : null}
          {held === null ? null : <LogAt key={held} runId={props.id} metric={summary.key} step={held} />}
        </>
      }
      reading={reading}
      onCursor={follow}
      onHold={hold}
      onView={props.onView}
      onExpand={() => onOpen("chart")}
      onTable={() => onOpen("table")}
      pinned={props.pinned}
      onPin={onPin ? () => onPin(summary.key) : undefined}
    />
  );
}

// useMetricLines returns the line of a metric with the points that the stream has sent since it was read.
export function useMetricLines({ id, summary, view, origin, live }: MetricProps, points: number, enabled: boolean) {
  const { x = "step" } = view;
  const color = useTheme().shown === "dark" ? "#5fd3a6" : "#0d6e52";
  const zoomed = view.from !== undefined;
  const request = { points, x: axisOf(view), ...toWindow(view, origin) };
  const { data, error } = useSeries(id, summary.key, request, enabled, zoomed ? false : live.every);
  const newest = useLivePoints(live.points, summary.key);
  const lines = useMemo<Line[]>(
    () => (data ? [{ id, name: summary.key, color, curve: toCurve(data, zoomed ? [] : newest, x, origin) }] : []),
    [data, newest, zoomed, x, origin, id, summary.key, color],
  );
  return { lines, error };
}

// useFollow returns the reading of a chart with one line: at the cursor, otherwise of its end. held is the step of the
// point that was clicked; a second click lets it go.
export function useFollow(lines: readonly Line[], view: ChartView) {
  const read = useReading();
  const [row, setRow] = useState<number | null>(null);
  const [held, setHeld] = useState<number | null>(null);
  const curve = lines[0]?.curve;
  const logged = view.logx ? (curve?.x.filter((x) => x <= 0).length ?? 0) : 0;
  const at = row === null ? (curve?.x.length ?? 0) - 1 : row + logged;
  const reading =
    curve && at >= 0 && at < curve.x.length ? read(row === null ? atEnd(curve) : curve, at, view.x ?? "step") : "";
  const hold = (next: number) => {
    const step = curve?.lastStep[next + logged];
    setHeld((before) => (step === undefined || step === before ? null : step));
  };
  return { reading, follow: (next: number | null) => setRow(next), held, hold };
}
