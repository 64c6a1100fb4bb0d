import { useTranslation } from "react-i18next";
import { useFormats } from "@/lib/prefs";
import { axisNumber } from "@/screens/job/charts/axis";
import type { Line } from "@/screens/job/charts/plot-data";
import { UntrustedText } from "@/ui";
import { nearest } from "./diff";
import { Swatch } from "./Swatch";

const most = 10;

// Legend lists the values of the lines that are nearest to a place, the highest first.
export function Legend({ lines, place }: { lines: readonly Line[]; place: number }) {
  const { t } = useTranslation("compare");
  const { tag } = useFormats();
  const rows = lines
    .map((line) => ({ line, value: line.curve.mean[nearest(line.curve.x, place)] ?? null }))
    .sort((a, b) => (b.value ?? Number.NEGATIVE_INFINITY) - (a.value ?? Number.NEGATIVE_INFINITY));
  return (
    <ul className="pointer-events-none absolute top-1 right-2 z-10 max-w-60 rounded-md border bg-card/95 px-2 py-1 text-2xs shadow-card">
      {rows.slice(0, most).map(({ line, value }) => (
        <li key={line.id} className="flex items-center gap-1.5">
          <Swatch ink={line} />
          <UntrustedText text={line.name} longest={40} className="min-w-0 flex-1 truncate" />
          <span className="tabular pl-2">{value === null ? "NaN" : axisNumber(value, tag)}</span>
        </li>
      ))}
      {rows.length > most ? <li className="text-soft">{t("moreLines", { count: rows.length - most })}</li> : null}
    </ul>
  );
}
