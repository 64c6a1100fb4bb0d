import type { QueryClient } from "@tanstack/react-query";
import type { ComponentType } from "react";
import { texts } from "@/i18n/i18n";
import { type Part, part } from "@/lib/part";
import { summariesQuery } from "./charts/summaries";

// What a tab is about: a run, and its job unless the job was deleted. A live run still reports.
export type TabProps = { jobId?: string; runId: string; live: boolean };

type Tab = Part<TabProps> & {
  // read reads what the tab shows first, while its code is loaded.
  read?: (client: QueryClient, about: TabProps) => unknown;
};

const tab = (load: () => Promise<ComponentType<TabProps>>, area: string): Tab =>
  part(async () => {
    const [component] = await Promise.all([load(), texts(area)]);
    return component;
  });

// The tabs of jobs and runs that are made by other areas, in their order. A tab that does not exist yet is absent. Their
// names in the navigation are tabs.* in the texts of this folder.
export const areaTabs: Record<string, Tab> = {
  metrics: {
    ...tab(() => import("./charts/MetricsTab").then((m) => m.MetricsTab), "job"),
    read: (client, { runId, live }) => client.prefetchQuery(summariesQuery(runId, live)),
  },
  logs: tab(() => import("@/screens/logs/LogsTab").then((m) => m.LogsTab), "logs"),
  samples: tab(() => import("@/screens/samples/SamplesTab").then((m) => m.SamplesTab), "samples"),
  artifacts: tab(() => import("@/screens/artifacts/ArtifactsTab").then((m) => m.ArtifactsTab), "artifacts"),
  lineage: tab(() => import("@/screens/lineage/RunTab").then((m) => m.RunTab), "lineage"),
  system: tab(() => import("./system/SystemTab").then((m) => m.SystemTab), "job"),
};

// prepareTab begins to load the code of a tab. A tab that cannot be loaded shows its error when it is opened.
export function prepareTab(name: string | undefined): void {
  if (name !== undefined && Object.hasOwn(areaTabs, name)) areaTabs[name]?.load().catch(() => undefined);
}
