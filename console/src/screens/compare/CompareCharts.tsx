import { useCallback, useMemo } from "react";
import { useTranslation } from "react-i18next";
import { ChartBar } from "@/screens/job/charts/ChartBar";
import { Grid } from "@/screens/job/charts/Grid";
import { general, sections } from "@/screens/job/charts/sections";
import { useCharts } from "@/screens/job/charts/use-charts";
import { Button, EmptyState } from "@/ui";
import { CompareCard } from "./CompareCard";
import { GroupBy } from "./GroupBy";
import { GroupCard } from "./GroupCard";
import { choicesOf, type Group } from "./groups";
import { properties } from "./properties";
import type { Compared } from "./use-compared";

// CompareCharts has a chart for each metric that a run has, with the lines of all runs.
type Props = {
  runs: readonly Compared[];
  // Without groups, each run has a line. by is the property that makes them.
  groups: readonly Group<Compared>[] | null;
  by: string | undefined;
  onGroup: (by: string | undefined) => void;
};

export function CompareCharts({ runs, groups, by, onGroup }: Props) {
  const { t } = useTranslation("job");
  const [view, onView] = useCharts("compare");
  const keys = useMemo(() => [...new Set(runs.flatMap((run) => [...run.summaries.keys()]))].sort(), [runs]);
  const parts = useMemo(() => sections(keys, view.key ?? ""), [keys, view.key]);
  const choices = useMemo(() => choicesOf(runs.map(properties)), [runs]);
  const search = useCallback((key: string) => onView({ key: key || undefined }), [onView]);
  return (
    <div className="-mx-4 md:-mx-6">
      <ChartBar
        view={view}
        onView={onView}
        onSearch={search}
        keys={keys}
        end={runs.length > 1 ? <GroupBy choices={choices} value={by} onChange={onGroup} /> : null}
      />
      {parts.length === 0 ? (
        <EmptyState
          title={t("metrics.noMatch")}
          why={t("metrics.noMatchWhy")}
          action={<Button onClick={() => search("")}>{t("clearFilters")}</Button>}
        />
      ) : null}
      {parts.map((group) => (
        <Grid key={group.name} title={group.name === general ? t("metrics.general") : group.name} keys={group.keys}>
          {(key, points) =>
            groups ? (
              <GroupCard key={key} name={key} groups={groups} view={view} points={points} onView={onView} />
            ) : (
              <CompareCard key={key} name={key} runs={runs} view={view} points={points} onView={onView} />
            )
          }
        </Grid>
      ))}
    </div>
  );
}
