import { useTranslation } from "react-i18next";
import { useFormats } from "@/lib/prefs";
import { axisNumber } from "@/screens/job/charts/axis";
import { finite } from "@/screens/job/charts/number";
import { EmptyState, Nothing, Num, Select } from "@/ui";
import { DiffTable } from "./DiffTable";
import { type Stat, stats } from "./search";
import type { Compared } from "./use-compared";

type Props = { runs: readonly Compared[]; stat: Stat; onStat: (stat: Stat) => void };

// ValuesDiff compares the results of runs, each with its difference to the baseline.
export function ValuesDiff({ runs, stat, onStat }: Props) {
  const { t } = useTranslation("compare");
  const keys = [...new Set(runs.flatMap((run) => [...run.summaries.keys()]))].sort();
  if (keys.length === 0) return <EmptyState title={t("noMetrics")} why={t("noMetricsWhy")} />;
  const statOf = (run: Compared | undefined, key: string) => run?.summaries.get(key)?.[stat]?.value;
  return (
    <div className="grid gap-3">
      <Select
        label={t("stat")}
        value={stat}
        onChange={onStat}
        options={stats.map((value) => ({ value, label: t(`stats.${value}`) }))}
        className="w-40"
      />
      <DiffTable
        label={t("tabs.values")}
        runs={runs}
        rows={keys.slice(0, 1000).map((name) => {
          const base = finite(statOf(runs[0], name));
          return {
            name,
            cells: runs.map((run, at) => {
              const value = statOf(run, name);
              return {
                differs: false,
                content:
                  value === undefined ? (
                    <Nothing />
                  ) : (
                    <span className="inline-flex items-baseline gap-2">
                      {at > 0 ? <Delta value={finite(value)} base={base} /> : null}
                      <Num value={value} />
                    </span>
                  ),
              };
            }),
          };
        })}
      />
    </div>
  );
}

function Delta({ value, base }: { value: number | null; base: number | null }) {
  const { tag } = useFormats();
  if (value === null || base === null || value === base) return null;
  const delta = value - base;
  return (
    <span className="tabular text-xs text-soft">
      {delta > 0 ? "+" : "−"}
      {axisNumber(Math.abs(delta), tag, 3)}
    </span>
  );
}
