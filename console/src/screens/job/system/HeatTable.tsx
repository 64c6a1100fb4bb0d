import { useState } from "react";
import { useTranslation } from "react-i18next";
import { formatAbsolute } from "@/lib/format";
import { useFormats } from "@/lib/prefs";
import { UntrustedText } from "@/ui";
import { Amount } from "./Amount";
import type { Heat, HeatRow } from "./heat";
import { Strip } from "./Strip";

const head = "sticky top-0 z-10 h-7 bg-card px-2.5 text-xs font-medium text-soft";

type Hover = { row: HeatRow; share: number } | null;

// HeatTable has one row for each device: its use over time as colours, and its figures as text.
export function HeatTable({ heat, measure }: { heat: Heat; measure: string }) {
  const { t } = useTranslation("job");
  const [hover, setHover] = useState<Hover>(null);
  const name = t(`measure.${measure}`, { defaultValue: measure });
  return (
    <div className="rounded-lg border bg-card">
      <table aria-label={name} className="w-full table-fixed text-xs">
        <thead>
          <tr className="border-b">
            <th scope="col" className={`${head} w-28 text-left md:w-44`}>
              {t("system.device")}
            </th>
            <th scope="col" className={`${head} text-left`}>
              <Where heat={heat} hover={hover} measure={measure} />
            </th>
            <th scope="col" className={`${head} w-20 text-right`}>
              {t("system.latest")}
            </th>
            <th scope="col" className={`${head} w-20 text-right max-md:hidden`}>
              {t("system.mean")}
            </th>
            <th scope="col" className={`${head} w-20 text-right max-md:hidden`}>
              {t("system.max")}
            </th>
          </tr>
        </thead>
        <tbody>
          {heat.rows.map((row) => (
            <tr key={`${row.node}\n${row.gpu}`} className="hover:bg-hover">
              <th scope="row" className="h-5 truncate px-2.5 text-left font-normal">
                <UntrustedText text={row.node} longest={64} />
                {row.gpu === null ? null : (
                  <span className="text-soft">
                    {" "}
                    <UntrustedText text={t("system.gpu", { name: row.gpu })} longest={64} />
                  </span>
                )}
              </th>
              <td className="h-5 px-2.5">
                <Strip
                  cells={row.cells}
                  full={row.full}
                  onHover={(share) => setHover(share === null ? null : { row, share })}
                />
              </td>
              <td className="h-5 px-2.5 text-right">
                <Amount value={row.latest} measure={measure} />
              </td>
              <td className="h-5 px-2.5 text-right max-md:hidden">
                <Amount value={row.mean} measure={measure} />
              </td>
              <td className="h-5 px-2.5 text-right max-md:hidden">
                <Amount value={row.max} measure={measure} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

// Where shows the time of the row, or the time and the value under the pointer.
function Where({ heat, hover, measure }: { heat: Heat; hover: Hover; measure: string }) {
  const { tag, zone } = useFormats();
  const { t } = useTranslation("job");
  const at = (share: number) => formatAbsolute(heat.from + share * (heat.to - heat.from), tag, zone);
  if (!hover)
    return <span className="block truncate font-normal">{t("system.range", { from: at(0), to: at(1) })}</span>;
  const cell = hover.row.cells[Math.min(hover.row.cells.length - 1, Math.floor(hover.share * hover.row.cells.length))];
  return (
    <span className="flex justify-between gap-2 font-normal">
      <span className="truncate">{at(hover.share)}</span>
      <span className="text-ink">
        <Amount value={cell ?? null} measure={measure} />
      </span>
    </span>
  );
}
