import { useNavigate } from "@tanstack/react-router";
import { Share2 } from "lucide-react";
import { lazy, type ReactNode, Suspense, useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { PartOf, part } from "@/lib/part";
import { useTheme } from "@/theme/theme";
import { Button, EmptyState, ErrorNote, PageHeader, SkeletonLines, Tabs } from "@/ui";
import { AddRun } from "./AddRun";
import { compareRoute } from "./area";
import { CompareCharts } from "./CompareCharts";
import { baseFirst } from "./diff";
import { groupsOf, inGroupColors } from "./groups";
import { ParamsDiff } from "./ParamsDiff";
import { properties } from "./properties";
import { RunStrip } from "./RunStrip";
import { type CompareSearch, idsOf, mostRuns, type Tab, tabs } from "./search";
import { useCompared } from "./use-compared";
import { ValuesDiff } from "./ValuesDiff";

const ShareDialog = lazy(() => import("@/screens/job/actions/ShareDialog").then((m) => ({ default: m.ShareDialog })));
const samplesDiff = part(() => import("./SamplesDiff").then((m) => m.default));
const logsDiff = part(() => import("./LogsDiff").then((m) => m.default));
const skeleton = <SkeletonLines lines={6} />;

// CompareScreen shows up to fifty runs over each other: charts, and what differs in parameters, results, samples and logs.
export function CompareScreen() {
  const { t } = useTranslation("compare");
  const search = compareRoute.useSearch();
  const navigate = useNavigate({ from: "/compare" });
  const ids = idsOf(search.runs);
  const { rows, failed, pending } = useCompared(ids);
  const [sharing, setSharing] = useState(false);
  const change = (next: CompareSearch) =>
    void navigate({ search: (before) => ({ ...before, ...next }), replace: true });
  const set = (next: string[]) => change({ runs: next.length > 0 ? next.join(",") : undefined });
  const runs = useMemo(() => baseFirst(rows, search.base), [rows, search.base]);
  const { group, tab = "charts" } = search;
  const { shown } = useTheme();
  const all = t("group.all");
  const groups = useMemo(
    () => (group === undefined ? null : groupsOf(runs, group, all, properties)),
    [runs, group, all],
  );
  // Where the lines are those of groups, the names of the runs have their colours.
  const named = useMemo(
    () => (groups && tab === "charts" ? inGroupColors(rows, groups, shown) : rows),
    [rows, groups, tab, shown],
  );
  const content: Record<Tab, () => ReactNode> = {
    charts: () => <CompareCharts runs={runs} groups={groups} by={group} onGroup={(next) => change({ group: next })} />,
    params: () => (
      <ParamsDiff runs={runs} equal={search.equal === true} onEqual={(on) => change({ equal: on || undefined })} />
    ),
    values: () => <ValuesDiff runs={runs} stat={search.stat ?? "latest"} onStat={(stat) => change({ stat })} />,
    samples: () => <PartOf part={samplesDiff} props={{ runs, search, onChange: change }} fallback={skeleton} />,
    logs: () => <PartOf part={logsDiff} props={{ runs, search, onChange: change }} fallback={skeleton} />,
  };
  return (
    <>
      <PageHeader
        name={t("title")}
        actions={
          <>
            {ids.length < mostRuns ? <AddRun onAdd={(id) => set([...ids, id])} /> : null}
            <Button
              icon={<Share2 size={13} aria-hidden />}
              disabled={rows.length < 2 || rows.some((r) => r.run.protected)}
              onClick={() => setSharing(true)}
            >
              {t("share.action", { ns: "job" })}
            </Button>
          </>
        }
      >
        <RunStrip
          runs={named}
          base={runs[0]?.id}
          onBase={(base) => change({ base })}
          onRemove={(id) => set(ids.filter((other) => other !== id))}
        />
        {failed.map(({ id, error }) => (
          <div key={id} className="flex items-start gap-2">
            <ErrorNote error={error} className="flex-1" />
            <Button size="sm" onClick={() => set(ids.filter((other) => other !== id))}>
              {t("remove", { name: id })}
            </Button>
          </div>
        ))}
      </PageHeader>
      {ids.length === 0 ? (
        <EmptyState title={t("empty")} why={t("emptyWhy")} docs="/docs" />
      ) : pending && rows.every((r) => r.summaries.size === 0) ? (
        <SkeletonLines lines={6} className="px-4 md:px-6" />
      ) : (
        <div className="px-4 pb-6 md:px-6">
          <Tabs
            label={t("views")}
            value={search.tab ?? "charts"}
            onChange={(tab) => change({ tab: tab === "charts" ? undefined : tab })}
            tabs={tabs.map((value) => ({
              value,
              label: t(`tabs.${value}`),
              content: value === (search.tab ?? "charts") ? content[value]() : null,
            }))}
          />
        </div>
      )}
      <Suspense fallback={null}>
        {sharing ? <ShareDialog kind="comparison" targets={ids} onClose={() => setSharing(false)} /> : null}
      </Suspense>
    </>
  );
}
