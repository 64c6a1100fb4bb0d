import { useTranslation } from "react-i18next";
import { formatNumber } from "@/lib/format";
import { useFormats } from "@/lib/prefs";
import { Num, UntrustedText } from "@/ui";
import type { Line, Shared } from "./api";
import { notFinite, pathOf, rangeOf, strokeOf } from "./chart";

const width = 300;
const height = 90;
const rows = 50;

export function SharedChart({ name, lines, runs }: { name: string; lines: Line[]; runs: Shared["runs"] }) {
  const { t } = useTranslation("shares");
  const { tag } = useFormats();
  const range = rangeOf(lines);
  const broken = notFinite(lines);
  const number = (value: number) => formatNumber(value, tag, { maximumSignificantDigits: 4 });
  return (
    <figure className="grid min-w-0 gap-1 rounded-lg border bg-card px-3 py-2">
      <figcaption className="flex items-baseline gap-2 text-xs">
        <UntrustedText text={name} longest={80} className="min-w-0 flex-1 truncate font-mono" />
        {range ? (
          <span className="shrink-0 text-soft tabular" data-format>
            {number(range.minY)} – {number(range.maxY)}
          </span>
        ) : null}
      </figcaption>
      {range ? (
        <svg
          role="img"
          viewBox={`0 -2 ${width} ${height + 4}`}
          preserveAspectRatio="none"
          className="h-24 w-full"
          aria-label={t("chartLabel", {
            name,
            min: number(range.minY),
            max: number(range.maxY),
            from: range.minX,
            to: range.maxX,
          })}
        >
          {lines.map((line) => (
            <path
              key={line.run}
              d={pathOf(line.series.points, range, width, height)}
              fill="none"
              strokeWidth="1.5"
              vectorEffect="non-scaling-stroke"
              {...strokeOf(line.run)}
            />
          ))}
        </svg>
      ) : null}
      {broken > 0 ? <p className="text-2xs text-warn">{t("notFinite", { count: broken })}</p> : null}
      <details className="text-2xs text-soft">
        <summary className="w-fit cursor-pointer py-0.5">{t("asTable")}</summary>
        <div className="scroll-thin max-h-40 overflow-y-auto">
          <table className="w-full tabular">
            <tbody>
              {lines.flatMap((line) =>
                line.series.points.slice(-rows).map((point) => (
                  <tr key={`${line.run}-${point.step}`}>
                    <td>{runs.length > 1 ? <UntrustedText text={runs[line.run]?.name ?? ""} longest={40} /> : null}</td>
                    <td className="text-right">{point.step}</td>
                    <td className="text-right">
                      <Num value={point.value} />
                    </td>
                  </tr>
                )),
              )}
            </tbody>
          </table>
        </div>
      </details>
    </figure>
  );
}
