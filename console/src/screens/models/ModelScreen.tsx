import { useNavigate } from "@tanstack/react-router";
import { Suspense } from "react";
import { useTranslation } from "react-i18next";
import { ApiError } from "@/api/error";
import { type Model, type ModelVersion, useModelVersions } from "@/api/models";
import { LineageTab } from "@/screens/lineage/lazy";
import { EmptyState, ErrorPanel, PageHeader, Select, SkeletonLines, type Tab, Tabs, Time, UntrustedText } from "@/ui";
import { CopyId } from "@/ui/CopyId";
import { Actions } from "./Actions";
import { useTaggedModel, useVersion } from "./api";
import { versionRoute } from "./area";
import { CardTab } from "./CardTab";
import { Files } from "./Files";
import { History } from "./History";
import { Lineage } from "./Lineage";
import { Stage } from "./Stage";
import type { TabName } from "./search";
import { Versions } from "./Versions";
import { versionOf } from "./version";

export function ModelScreen() {
  const { id, version } = versionRoute.useParams();
  const { t } = useTranslation("models");
  const model = useTaggedModel(id);
  const versions = useModelVersions(id);
  const error = model.error ?? versions.error;
  if (!model.data || !versions.data) {
    if (error)
      return <ErrorPanel error={error} onRetry={() => void Promise.all([model.refetch(), versions.refetch()])} />;
    return <SkeletonLines lines={6} className="max-w-2xl p-6" />;
  }
  const chosen = versionOf(version, model.data.value, versions.data);
  if (chosen === null && versions.data.length === 0) {
    return (
      <>
        <PageHeader name={model.data.value.name} />
        <EmptyState title={t("noVersions")} why={t("noVersionsWhy")} docs="/docs" />
      </>
    );
  }
  if (chosen === null) return <ErrorPanel error={new ApiError(404, null, `no version ${version}`, [], null, 0)} />;
  return <Loaded model={model.data.value} versions={versions.data} number={chosen} />;
}

type LoadedProps = { model: Model; versions: ModelVersion[]; number: number };

function Loaded({ model, versions, number }: LoadedProps) {
  const { t } = useTranslation("models");
  const navigate = useNavigate();
  const { tab = "card" } = versionRoute.useSearch();
  const { data, error, refetch } = useVersion(model.id, number);
  const go = (version: string) =>
    void navigate({
      to: "/models/$id/$version",
      params: { id: model.id, version },
      search: { tab: tab === "card" ? undefined : tab },
    });
  const version = data?.value;
  const content = (value: TabName, body: React.ReactNode): Tab<TabName> => ({
    value,
    label: t(`tabs.${value}`),
    content: body,
  });
  return (
    <div className="scroll-thin min-h-0 flex-1 overflow-auto">
      <PageHeader
        name={model.name}
        lead={
          <>
            <Select
              label={t("version")}
              size="sm"
              value={String(number)}
              onChange={go}
              options={versions.map((v) => ({ value: String(v.version), label: `v${v.version}` }))}
            />
            {version ? <Stage version={version} /> : null}
          </>
        }
        actions={data ? <Actions model={model} version={data.value} etag={data.etag} /> : null}
      >
        <div className="flex flex-wrap items-center gap-x-4 text-sm text-soft">
          {version ? <CopyId id={version.ref} /> : null}
          <UntrustedText text={model.owner} longest={128} />
          {version ? <Time at={version.created_at} /> : null}
        </div>
        {model.description ? <UntrustedText text={model.description} longest={4096} className="text-sm" /> : null}
        {version?.status_reason ? (
          <p className="rounded-md bg-bad-tint px-3 py-2 text-sm text-bad">
            <UntrustedText text={version.status_reason} longest={2000} />
          </p>
        ) : null}
      </PageHeader>
      <div className="max-w-[96rem] px-4 pb-8 md:px-6">
        {error && !version ? <ErrorPanel error={error} onRetry={() => void refetch()} /> : null}
        {version ? (
          <Tabs<TabName>
            label={t("views")}
            value={tab}
            onChange={(next) =>
              void navigate({
                to: "/models/$id/$version",
                params: { id: model.id, version: String(number) },
                search: { tab: next === "card" ? undefined : next },
                replace: true,
              })
            }
            tabs={[
              content("card", <CardTab key={version.id} version={version} />),
              content("versions", <Versions model={model} versions={versions} current={number} />),
              content(
                "lineage",
                <>
                  <Lineage version={version} />
                  <Suspense fallback={<SkeletonLines lines={5} />}>
                    <LineageTab of={{ kind: "model", id: model.id, version: number }} className="mt-4" />
                  </Suspense>
                </>,
              ),
              content("files", <Files version={version} />),
              content("history", <History model={model} />),
            ]}
          />
        ) : error ? null : (
          <SkeletonLines lines={5} />
        )}
      </div>
    </div>
  );
}
