import { useTranslation } from "react-i18next";
import { formatNumber } from "@/lib/format";
import { useFormats } from "@/lib/prefs";
import type { Line } from "./plot-data";

type Props = { lines: readonly Line[]; runs?: number };

// Sampling shows how many of the points of the window the chart has, so that a chart never looks more exact than it is.
// With runs, the lines are means of so many runs, and a zoom reads no other points.
export function Sampling({ lines, runs }: Props) {
  const { t } = useTranslation("job");
  const { tag } = useFormats();
  if (lines.length === 0) return null;
  const total = lines.reduce((sum, { curve }) => sum + curve.total, 0);
  const shown = lines.reduce((sum, { curve }) => sum + curve.x.length, 0);
  const bucketed = lines.some(({ curve }) => curve.bucketed);
  const count = { count: total, total: formatNumber(total, tag) };
  const text =
    runs !== undefined
      ? t("chart.means", { ...count, count: runs })
      : bucketed
        ? t("chart.sampled", { ...count, shown: formatNumber(shown, tag) })
        : total === 0
          ? t("chart.empty")
          : t("chart.all", count);
  const omitted = lines.reduce((sum, { curve }) => sum + curve.omitted, 0);
  return (
    <p className="shrink-0 text-2xs text-soft">
      {text}
      {omitted > 0 ? ` ${t("chart.omitted", { count: omitted, total: formatNumber(omitted, tag) })}` : null}
    </p>
  );
}
