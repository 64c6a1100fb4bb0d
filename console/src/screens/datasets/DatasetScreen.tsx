import { useNavigate } from "@tanstack/react-router";
import { Lock } from "lucide-react";
import { type ReactNode, Suspense } from "react";
import { useTranslation } from "react-i18next";
import { ApiError } from "@/api/error";
import { LineageTab } from "@/screens/lineage/lazy";
import {
  Badge,
  Bytes,
  EmptyState,
  ErrorPanel,
  Num,
  PageHeader,
  Select,
  SkeletonLines,
  StateBadge,
  type Tab,
  Tabs,
  Time,
  UntrustedText,
} from "@/ui";
import { CopyId } from "@/ui/CopyId";
import { Fact, Facts } from "@/ui/Facts";
import { type Dataset, type DatasetVersion, useDataset, useVersions } from "./api";
import { datasetRoute } from "./area";
import { Files } from "./Files";
import { Preview } from "./Preview";
import { SchemaTab } from "./SchemaTab";
import type { TabName } from "./search";
import { Versions } from "./Versions";

export function DatasetScreen() {
  const { id, version } = datasetRoute.useParams();
  const { t } = useTranslation("datasets");
  const dataset = useDataset(id);
  const versions = useVersions(id);
  const error = dataset.error ?? versions.error;
  if (!dataset.data || !versions.data) {
    if (error)
      return <ErrorPanel error={error} onRetry={() => void Promise.all([dataset.refetch(), versions.refetch()])} />;
    return <SkeletonLines lines={6} className="max-w-2xl p-6" />;
  }
  const wanted = version === "latest" ? dataset.data.latest_version : version;
  const chosen =
    versions.data.find((v) => v.version === wanted) ?? (version === "latest" ? versions.data[0] : undefined);
  if (versions.data.length === 0) {
    return (
      <>
        <PageHeader name={dataset.data.name} />
        <EmptyState title={t("noVersions")} why={t("noVersionsWhy")} docs="/docs" />
      </>
    );
  }
  if (!chosen) return <ErrorPanel error={new ApiError(404, null, `no version ${version}`, [], null, 0)} />;
  return <Loaded dataset={dataset.data} version={chosen} versions={versions.data} />;
}

type LoadedProps = { dataset: Dataset; version: DatasetVersion; versions: DatasetVersion[] };

function Loaded({ dataset, version, versions }: LoadedProps) {
  const { t } = useTranslation("datasets");
  const navigate = useNavigate();
  // The records of a protected dataset are not shown, so its schema is what there is to see.
  const first: TabName = dataset.protected ? "schema" : "preview";
  const { tab = first } = datasetRoute.useSearch();
  const go = (name: string, next: TabName) =>
    void navigate({
      to: "/datasets/$id/$version",
      params: { id: dataset.id, version: name },
      search: { tab: next === first ? undefined : next },
      replace: true,
    });
  const view = (value: TabName, content: ReactNode): Tab<TabName> => ({ value, label: t(`tabs.${value}`), content });
  const open = [
    view("preview", <Preview dataset={dataset} version={version} />),
    view("schema", <SchemaTab dataset={dataset} version={version} />),
    view("files", <Files dataset={dataset} version={version} />),
    view("versions", <Versions dataset={dataset} versions={versions} current={version.version} />),
    view(
      "lineage",
      <Suspense fallback={<SkeletonLines lines={5} />}>
        <LineageTab of={{ kind: "dataset", id: dataset.id, version: version.version }} />
      </Suspense>,
    ),
  ];
  const tabs = dataset.protected ? open.filter((t) => t.value !== "preview" && t.value !== "files") : open;
  return (
    <div className="scroll-thin min-h-0 flex-1 overflow-auto">
      <PageHeader
        name={dataset.name}
        lead={
          <>
            <Select
              label={t("version")}
              size="sm"
              value={version.version}
              onChange={(name) => go(name, tab)}
              options={versions.map((v) => ({
                value: v.version,
                label: <UntrustedText text={v.version} longest={64} />,
              }))}
            />
            <StateBadge state={version.state} />
            {dataset.protected ? (
              <Badge tone="info">
                <Lock size={11} aria-hidden />
                {t("protected")}
              </Badge>
            ) : null}
          </>
        }
      >
        <CopyId id={version.ref} className="text-soft" />
        {dataset.description ? <UntrustedText text={dataset.description} longest={4096} className="text-sm" /> : null}
        {dataset.protected ? <p className="max-w-prose text-sm text-soft">{t("protectedWhy")}</p> : null}
        <Facts className="max-w-4xl">
          <Fact label={t("format")}>{dataset.format}</Fact>
          <Fact label={t("size")}>
            <Bytes value={version.bytes} />
          </Fact>
          <Fact label={t("files")}>
            <Num value={version.files} />
          </Fact>
          <Fact label={t("digest")}>
            <CopyId id={version.digest} short={20} />
          </Fact>
          <Fact label={t("owner")}>
            <UntrustedText text={dataset.owner} longest={128} />
          </Fact>
          <Fact label={t("committed")}>
            <Time at={version.committed_at} />
          </Fact>
        </Facts>
      </PageHeader>
      <div className="max-w-[96rem] px-4 pb-8 md:px-6">
        <Tabs<TabName>
          label={t("views")}
          value={tabs.some((other) => other.value === tab) ? tab : first}
          onChange={(next) => go(version.version, next)}
          tabs={tabs}
        />
      </div>
    </div>
  );
}
