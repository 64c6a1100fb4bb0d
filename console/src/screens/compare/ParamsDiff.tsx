import { useTranslation } from "react-i18next";
import { shown } from "@/screens/job/overview/Hparams";
import { Checkbox, EmptyState, Nothing, UntrustedText } from "@/ui";
import { DiffTable } from "./DiffTable";
import { diffRows, same } from "./diff";
import { properties } from "./properties";
import type { Compared } from "./use-compared";

type Props = { runs: readonly Compared[]; equal: boolean; onEqual: (on: boolean) => void };

// ParamsDiff compares the parameters and the origin of runs. Only what differs is shown, unless the user wants all.
export function ParamsDiff({ runs, equal, onEqual }: Props) {
  const { t } = useTranslation("compare");
  const all = diffRows(runs.map(properties), true);
  const rows = equal ? all : all.filter((row) => row.differs);
  return (
    <div className="grid gap-3">
      <div className="flex flex-wrap items-center gap-4">
        <Checkbox showLabel label={t("onlyDiffering")} checked={!equal} onChange={(on) => onEqual(!on)} />
        <span className="text-xs text-soft">{t("shownOf", { shown: rows.length, count: all.length })}</span>
      </div>
      {rows.length === 0 ? (
        <EmptyState title={t("nothingDiffers")} why={t("nothingDiffersWhy")} />
      ) : (
        <DiffTable
          label={t("tabs.params")}
          runs={runs}
          rows={rows.map((row) => ({
            name: row.name,
            cells: row.values.map((value) => ({
              differs: !same(value, row.values[0]),
              content:
                value === undefined ? (
                  <Nothing />
                ) : (
                  <UntrustedText text={shown(value)} longest={200} className="tabular" />
                ),
            })),
          }))}
        />
      )}
    </div>
  );
}
