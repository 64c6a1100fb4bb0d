import { useMemo } from "react";
import { useTranslation } from "react-i18next";
import { text } from "@/lib/search";
import { useView } from "@/lib/view";
import { EmptyState, ErrorPanel, Select, SkeletonLines } from "@/ui";
import { Section } from "../overview/OverviewTab";
import type { TabProps } from "../tabs";
import { Environment } from "./Environment";
import { HeatTable } from "./HeatTable";
import { useHardware } from "./hardware";
import { available, heat } from "./heat";

const columns = 200;
const validate = (search: Record<string, unknown>) => ({ measure: text(search.measure, 64) });

// SystemTab shows how busy the machines of a run were, as rows of colours, and what they were.
export function SystemTab({ runId, live }: TabProps) {
  const { t } = useTranslation("job");
  const [view, change] = useView<{ measure?: string }>(validate);
  const { data, error, refetch } = useHardware(runId, live);
  const names = useMemo(() => available(data ?? []), [data]);
  const measure = names.find((name) => name === view.measure) ?? names[0] ?? "";
  const map = useMemo(() => heat(data ?? [], measure, columns), [data, measure]);
  if (error && !data) return <ErrorPanel error={error} onRetry={() => void refetch()} />;
  if (!data) return <SkeletonLines className="px-4 pt-4 md:px-6" />;
  return (
    <div className="grid gap-5 px-4 py-4 md:px-6">
      {names.length === 0 ? (
        <EmptyState title={t("system.none")} why={t(live ? "system.noneYet" : "system.noneEver")} docs="/docs" />
      ) : (
        <Section
          title={t("system.machines")}
          end={
            <Select
              size="sm"
              label={t("system.measure")}
              value={measure}
              onChange={(next) => change({ measure: next })}
              options={names.map((value) => ({ value, label: t(`measure.${value}`, { defaultValue: value }) }))}
              className="ml-auto w-44"
            />
          }
        >
          <HeatTable heat={map} measure={measure} />
        </Section>
      )}
      <Section title={t("environment.title")}>
        <Environment id={runId} />
      </Section>
    </div>
  );
}
