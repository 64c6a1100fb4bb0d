import { useTranslation } from "react-i18next";
import { useFormats } from "@/lib/prefs";
import { axisNumber } from "@/screens/job/charts/axis";
import type { Line } from "@/screens/job/charts/plot-data";
import { Nothing, UntrustedText } from "@/ui";
import { readings } from "./readings";
import { Swatch } from "./Swatch";

const most = 10;

// Legend lists the values of the lines at a place, the highest first, and then the lines that have none there.
export function Legend({ lines, place }: { lines: readonly Line[]; place: number }) {
  const { t } = useTranslation("compare");
  const { tag } = useFormats();
  const rows = readings(lines, place);
  return (
    <ul className="pointer-events-none absolute top-1 right-2 z-10 max-w-60 rounded-md border bg-card/95 px-2 py-1 text-2xs shadow-card">
      {rows.slice(0, most).map(({ line, value, mean }) => (
        <li key={line.id} className="flex items-center gap-1.5">
          <Swatch ink={line} />
          <UntrustedText text={line.name} longest={40} className="min-w-0 flex-1 truncate" />
          <span className="tabular pl-2">
            {value === undefined ? (
              <Nothing />
            ) : value === null ? (
              "NaN"
            ) : mean ? (
              t("meanOf", { value: axisNumber(value, tag) })
            ) : (
              axisNumber(value, tag)
            )}
          </span>
        </li>
      ))}
      {rows.length > most ? <li className="text-soft">{t("moreLines", { count: rows.length - most })}</li> : null}
    </ul>
  );
}
