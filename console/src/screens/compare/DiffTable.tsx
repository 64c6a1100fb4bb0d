import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { cx } from "@/lib/cx";
import { UntrustedText } from "@/ui";
import { Swatch } from "./Swatch";
import type { Compared } from "./use-compared";

export type Cell = { content: ReactNode; differs: boolean };
type Props = { label: string; runs: readonly Compared[]; rows: readonly { name: string; cells: Cell[] }[] };

const cell = "h-8 max-w-72 truncate border-b px-2.5";

// DiffTable has a row for each property and a column for each run. The names and, where there is room, the baseline, which
// is the first run, stay in view while the others scroll.
export function DiffTable({ label, runs, rows }: Props) {
  const { t } = useTranslation("compare");
  return (
    <div
      role="group"
      aria-label={label}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
      tabIndex={0}
      className="scroll-thin max-h-[70vh] overflow-auto rounded-lg border bg-card"
    >
      <table aria-label={label} className="min-w-full border-separate border-spacing-0 text-sm">
        <thead>
          <tr>
            <th
              scope="col"
              className={cx(cell, sticky(true), "left-0 z-30 w-44 min-w-44 text-left text-xs font-medium text-soft")}
            >
              {t("property")}
            </th>
            {runs.map(({ id, run, ink }, at) => (
              <th
                key={id}
                scope="col"
                className={cx(
                  cell,
                  sticky(true),
                  at === 0 && "left-44 z-30 border-r max-md:z-20 max-md:left-auto",
                  "min-w-36 text-right font-medium",
                )}
              >
                <span className="inline-flex max-w-full items-center gap-1.5">
                  <Swatch ink={ink} />
                  <UntrustedText text={run.name} longest={60} className="min-w-0 truncate" />
                </span>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.name}>
              <th
                scope="row"
                className={cx(cell, sticky(false), "left-0 w-44 max-w-44 text-left font-mono text-xs font-normal")}
              >
                <UntrustedText text={row.name} longest={200} />
              </th>
              {row.cells.map((value, at) => (
                <td
                  key={runs[at]?.id}
                  className={cx(
                    cell,
                    "text-right",
                    at === 0 && sticky(false),
                    at === 0 && "left-44 border-r max-md:static",
                    at > 0 && value.differs && "bg-warn-tint",
                  )}
                >
                  {value.content}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function sticky(top: boolean): string {
  return top ? "sticky top-0 z-20 bg-card" : "sticky z-10 bg-card";
}
