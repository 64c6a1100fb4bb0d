import { useTranslation } from "react-i18next";
import { Dialog, SkeletonLines, Tabs, UntrustedText } from "@/ui";
import { ChartCard } from "./ChartCard";
import { LogAt } from "./LogAt";
import { type MetricProps, useFollow, useMetricLines } from "./MetricCard";
import { RowsTable } from "./RowsTable";

type Props = MetricProps & { tab: "chart" | "table"; onTab: (tab: "chart" | "table" | null) => void };

// The largest number of buckets that the API returns for a series.
const most = 2000;

// ChartDialog is a metric in large, and its values as a table.
export function ChartDialog(props: Props) {
  const { summary, view, tab, onTab } = props;
  const { t } = useTranslation("job");
  const { lines, error } = useMetricLines(props, most, true);
  const { reading, follow, held, hold } = useFollow(lines, view);
  const chart = (
    <ChartCard
      name={summary.key}
      lines={lines}
      view={view}
      drawn
      error={error}
      height={360}
      label={t("chart.label", { name: summary.key, count: summary.count })}
      badge={held === null ? null : <LogAt key={held} runId={props.id} metric={summary.key} step={held} />}
      reading={reading}
      onCursor={follow}
      onHold={hold}
      onView={props.onView}
    />
  );
  const curve = lines[0]?.curve;
  return (
    <Dialog
      open
      size="lg"
      onOpenChange={(open) => !open && onTab(null)}
      title={<UntrustedText text={summary.key} longest={256} className="font-mono text-sm" />}
    >
      <Tabs
        label={t("chart.views")}
        value={tab}
        onChange={onTab}
        tabs={[
          { value: "chart", label: t("chart.chart"), content: chart },
          {
            value: "table",
            label: t("chart.table"),
            content: curve ? <RowsTable name={summary.key} curve={curve} over={view.over} /> : <SkeletonLines />,
          },
        ]}
      />
    </Dialog>
  );
}
