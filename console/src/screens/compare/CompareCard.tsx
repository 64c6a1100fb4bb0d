import { lazy, memo, Suspense, useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { useFormats } from "@/lib/prefs";
import { axisTexts } from "@/screens/job/charts/axis";
import { ChartCard } from "@/screens/job/charts/ChartCard";
import { plotData } from "@/screens/job/charts/plot-data";
import { cardHeight, Slot } from "@/screens/job/charts/Slot";
import type { ChartView } from "@/screens/job/charts/view";
import { Legend } from "./Legend";
import type { Compared } from "./use-compared";
import { useLines } from "./use-lines";

const LinesTable = lazy(() => import("./LinesTable"));

type Props = {
  name: string;
  runs: readonly Compared[];
  view: ChartView;
  points: number;
  onView: (change: Partial<ChartView>) => void;
};

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
        label={t("chart.label", { name, count: lines.reduce((sum, l) => sum + l.curve.total, 0) })}
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
