import { useTranslation } from "react-i18next";
import { useFormats } from "@/lib/prefs";
import { axisNumber, span } from "./axis";
import type { Curve, XKind } from "./curve";
import { finite } from "./number";

// atEnd replaces the last bucket by the last point.
export function atEnd(curve: Curve): Curve {
  const row = curve.x.length - 1;
  if (!curve.end || (curve.counts[row] ?? 1) <= 1) return curve;
  const put = <T,>(values: readonly T[], value: T) => values.with(row, value);
  return {
    ...curve,
    mean: put(curve.mean, finite(curve.end.value)),
    firstStep: put(curve.firstStep, curve.end.step),
    lastStep: put(curve.lastStep, curve.end.step),
    counts: put(curve.counts, 1),
  };
}

// useReading returns a function that writes the value of a row of a curve and where it is.
export function useReading(): (curve: Curve, row: number, x: XKind) => string {
  const { t } = useTranslation("job");
  const { tag, zone } = useFormats();
  return (curve, row, x) => {
    const mean = curve.mean[row];
    const value = mean === null || mean === undefined ? t("chart.notFinite") : axisNumber(mean, tag, 5);
    const [first = 0, last = 0] = [curve.firstStep[row], curve.lastStep[row]];
    const at = curve.x[row] ?? 0;
    const place =
      x === "relative"
        ? span(at, tag)
        : x === "time"
          ? new Intl.DateTimeFormat(tag, { dateStyle: "short", timeStyle: "medium", timeZone: zone }).format(at * 1000)
          : x === "metric"
            ? axisNumber(at, tag, 6)
            : first === last
              ? t("chart.step", { step: axisNumber(last, tag, 12) })
              : t("chart.steps", { first: axisNumber(first, tag, 12), last: axisNumber(last, tag, 12) });
    if (curve.bucketed && (curve.counts[row] ?? 1) > 1 && mean !== null) {
      const [min, max] = [curve.min[row] ?? 0, curve.max[row] ?? 0];
      return t("chart.readBucket", { value, min: axisNumber(min, tag), max: axisNumber(max, tag), place });
    }
    return t("chart.read", { value, place });
  };
}
