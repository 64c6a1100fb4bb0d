import { useQueries } from "@tanstack/react-query";
import { lazy, memo, Suspense, useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { useFormats } from "@/lib/prefs";
import { axisTexts } from "@/screens/job/charts/axis";
import { ChartCard } from "@/screens/job/charts/ChartCard";
import { type Line, plotData } from "@/screens/job/charts/plot-data";
import { cardHeight, Slot } from "@/screens/job/charts/Slot";
import type { ChartView } from "@/screens/job/charts/view";
import { useTheme } from "@/theme/theme";
import { bandCurve, type Group, groupInks } from "./groups";
import { Legend } from "./Legend";
import type { Compared } from "./use-compared";
import { useSame } from "./use-same";

const LinesTable = lazy(() => import("./LinesTable"));

type Props = {
  name: string;
  groups: readonly Group<Compared>[];
  view: ChartView;
  points: number;
  onView: (change: Partial<ChartView>) => void;
};

// The API returns at most this many buckets of all series together.
const mostBuckets = 10_000;
const every = 5_000;

// GroupCard is the chart of one metric of several groups of runs: for each group the mean, between the lowest and the highest
// value of any of its runs. The request has no window, so a zoom shows the same means. Runs begin at different times, so it has
// no axis of the time since the start.
export const GroupCard = memo((props: Props) => (
  <Slot name={props.name}>{(drawn) => <Full {...props} drawn={drawn} />}</Slot>
));

function Full({ name, groups, view: given, points, onView, drawn }: Props & { drawn: boolean }) {
  const { t } = useTranslation("job");
  const { tag, zone } = useFormats();
  const [cursor, setCursor] = useState<{ row: number; own: boolean } | null>(null);
  const x = given.x === "time" ? "time" : "step";
  const view: ChartView = { ...given, x };
  const { lines, error, runs } = useBands(name, groups, x, points);
  const { smooth = 0, logx = false, logy = false } = view;
  const places = useMemo(
    () => plotData(lines, { smoothing: smooth, logX: logx, logY: logy })[0],
    [lines, smooth, logx, logy],
  );
  const place = cursor ? places[cursor.row] : undefined;
  const [table, setTable] = useState(false);
  return (
    <>
      <ChartCard
        name={name}
        lines={lines}
        view={view}
        drawn={drawn}
        error={error}
        height={cardHeight}
        runs={runs}
        label={t("chart.label", { name, count: lines.reduce((sum, line) => sum + line.curve.total, 0) })}
        reading={place === undefined ? "" : axisTexts([place], x, tag, zone)[0]}
        onCursor={(row, own) => setCursor(row === null ? null : { row, own })}
        onView={onView}
        onTable={() => setTable(true)}
        overlay={cursor?.own && place !== undefined ? <Legend lines={lines} place={place} /> : null}
      />
      <Suspense fallback={null}>
        {table ? (
          <LinesTable name={name} lines={lines} view={view} error={error} onClose={() => setTable(false)} />
        ) : null}
      </Suspense>
    </>
  );
}

function useBands(name: string, groups: readonly Group<Compared>[], x: "step" | "time", points: number) {
  const { shown } = useTheme();
  const having = groups.flatMap(({ name: group, runs }) => {
    const members = runs.filter((run) => run.summaries.has(name));
    return members.length > 0 ? [{ group, members }] : [];
  });
  const results = useQueries({
    queries: having.map(({ members }) => ({
      queryKey: ["compare", "band", name, x, points, members.map((run) => run.id)],
      queryFn: ({ signal }: { signal: AbortSignal }) => {
        const most = Math.max(1, Math.min(points, Math.floor(mostBuckets / members.length)));
        const body = { run_ids: members.map((run) => run.run.id), keys: [name], points: most, x, bands: true };
        return call(api.POST("/api/runs/compare", { body, signal }));
      },
      refetchInterval: members.some((run) => run.live) ? every : (false as const),
      staleTime: every,
    })),
  });
  const data = results.map((result) => result.data);
  const state = useSame([...data, ...having.map((group) => group.group)]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: state, x and the theme are all that the lines are made of
  const lines = useMemo(() => {
    const colors = groupInks(groups, shown);
    return having.flatMap(({ group }, at): Line[] => {
      const metric = data[at]?.metrics[0];
      const total = metric?.runs.reduce((sum, run) => sum + (run.series?.count ?? 0), 0) ?? 0;
      const ink = colors.get(group) ?? { color: "currentColor" };
      return metric ? [{ id: group, name: group, ...ink, curve: bandCurve(metric.band, x, total) }] : [];
    });
  }, [x, state, shown]);
  const runs = having.reduce((sum, group) => sum + group.members.length, 0);
  return { lines, error: results.find((result) => result.error)?.error, runs };
}
