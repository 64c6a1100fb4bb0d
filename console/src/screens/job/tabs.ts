import { type ComponentType, type LazyExoticComponent, lazy } from "react";
import { texts } from "@/i18n/i18n";

// What a tab is about: a run, and its job unless the job was deleted. A live run still reports.
export type TabProps = { jobId?: string; runId: string; live: boolean };

type Module = { default: ComponentType<TabProps> };
const tab = (load: () => Promise<Module>): LazyExoticComponent<ComponentType<TabProps>> => lazy(load);

// The tabs of jobs and runs that are made by other areas, in their order. A tab that does not exist yet is absent. Their
// names in the navigation are tabs.* in the texts of this folder.
export const areaTabs: Record<string, LazyExoticComponent<ComponentType<TabProps>>> = {
  metrics: tab(() => import("./charts/MetricsTab").then((m) => ({ default: m.MetricsTab }))),
  logs: tab(() => import("@/screens/logs/LogsTab").then((m) => ({ default: m.LogsTab }))),
  samples: tab(() => import("@/screens/samples/SamplesTab").then((m) => ({ default: m.SamplesTab }))),
  artifacts: tab(() => import("@/screens/artifacts/ArtifactsTab").then((m) => ({ default: m.ArtifactsTab }))),
  lineage: tab(() =>
    Promise.all([import("@/screens/lineage/RunTab"), texts("lineage")]).then(([m]) => ({ default: m.RunTab })),
  ),
  system: tab(() => import("./system/SystemTab").then((m) => ({ default: m.SystemTab }))),
};
