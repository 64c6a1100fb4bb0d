import { useQueryClient } from "@tanstack/react-query";
import { type ReactNode, Suspense, useEffect } from "react";
import { useTranslation } from "react-i18next";
import { PartOf } from "@/lib/part";
import { LinkTabs, SkeletonLines } from "@/ui";
import { useLastReads } from "./last-reads";
import { areaTabs, type TabProps } from "./tabs";

const order = ["overview", "metrics", "logs", "samples", "artifacts", "lineage", "system", "spec", "events", "notes"];

type Props = {
  to: "/jobs/$id/{-$tab}" | "/runs/$id/{-$tab}";
  id: string;
  tab: string | undefined;
  about: TabProps;
  // own are the tabs that belong to the screen itself.
  own: Record<string, () => ReactNode>;
};

const skeleton = <SkeletonLines className="px-4 pt-4 md:px-6" />;

// TabFrame has the tabs of a job or a run. The first one, the overview, has the address without a tab.
export function TabFrame({ to, id, tab, about, own }: Props) {
  const { t } = useTranslation("job");
  const names = order.filter((name) => name in own || name in areaTabs);
  const shown = names.find((name) => name === tab) ?? "overview";
  const other = areaTabs[shown];
  const client = useQueryClient();
  const { runId, live } = about;
  useLastReads(live ? [runId] : []);
  useEffect(() => {
    if (!other?.now()) other?.read?.(client, { runId, live });
  }, [other, client, runId, live]);
  return (
    <>
      <div className="px-4 md:px-6">
        <LinkTabs
          label={t("tabs.title")}
          tabs={names.map((name) => ({
            label: t(`tabs.${name}`),
            link: { to, params: { id, tab: name === "overview" ? undefined : name } },
          }))}
        />
      </div>
      <div className="flex min-h-0 flex-1 flex-col">
        <Suspense fallback={skeleton}>
          {own[shown]?.() ?? (other ? <PartOf part={other} props={about} fallback={skeleton} /> : null)}
        </Suspense>
      </div>
    </>
  );
}
