import { useNavigate } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { ApiError } from "@/api/error";
import { differences } from "@/lib/flatten";
import { EmptyState, ErrorPanel, PageBody, PageHeader, Select, SkeletonLines, StateBadge, UntrustedText } from "@/ui";
import { CopyId } from "@/ui/CopyId";
import { DiffTable } from "@/ui/DiffTable";
import { Panel } from "@/ui/Panel";
import { type Environment, useEnvironment, useVersions, type Version } from "./api";
import { environmentRoute } from "./area";
import { Content } from "./Content";

const nothing = "*";
const nameOf = (version: Version) => String(version.version);

export function EnvironmentScreen() {
  const { id } = environmentRoute.useParams();
  const { version: wanted } = environmentRoute.useSearch();
  const { t } = useTranslation("environments");
  const environment = useEnvironment(id);
  const versions = useVersions(id);
  const error = environment.error ?? versions.error;
  if (!environment.data || !versions.data) {
    if (error)
      return <ErrorPanel error={error} onRetry={() => void Promise.all([environment.refetch(), versions.refetch()])} />;
    return <SkeletonLines lines={6} className="max-w-2xl p-6" />;
  }
  const shown = wanted ? versions.data.find((v) => nameOf(v) === wanted) : versions.data[0];
  if (shown) return <Loaded environment={environment.data} version={shown} versions={versions.data} />;
  if (wanted) return <ErrorPanel error={new ApiError(404, null, `no version ${wanted}`, [], null, 0)} />;
  return (
    <>
      <PageHeader name={environment.data.name} />
      <EmptyState title={t("noVersions")} why={t("noVersionsWhy")} docs="/docs" />
    </>
  );
}

function Loaded({
  environment,
  version,
  versions,
}: {
  environment: Environment;
  version: Version;
  versions: Version[];
}) {
  const { t } = useTranslation("environments");
  const { against } = environmentRoute.useSearch();
  const navigate = useNavigate({ from: "/environments/$id" });
  const other = versions.find((v) => nameOf(v) === against);
  const rows = other ? differences(other.manifest, version.manifest) : [];
  const option = (v: Version) => ({ value: nameOf(v), label: <UntrustedText text={nameOf(v)} longest={64} /> });
  return (
    <div className="scroll-thin min-h-0 flex-1 overflow-auto">
      <PageHeader
        name={environment.name}
        lead={
          <>
            <Select
              label={t("version")}
              size="sm"
              value={nameOf(version)}
              onChange={(next) => void navigate({ search: (before) => ({ ...before, version: next }), replace: true })}
              options={versions.map(option)}
            />
            <StateBadge state={version.state} />
          </>
        }
        actions={
          versions.length > 1 ? (
            <Select
              label={t("compare")}
              value={other ? nameOf(other) : nothing}
              onChange={(next) =>
                void navigate({
                  search: (before) => ({ ...before, against: next === nothing ? undefined : next }),
                  replace: true,
                })
              }
              options={[
                { value: nothing, label: t("compareNone") },
                ...versions
                  .filter((v) => v.id !== version.id)
                  .map((v) => ({ value: nameOf(v), label: t("compareWith", { version: nameOf(v) }) })),
              ]}
              className="min-w-44"
            />
          ) : null
        }
      >
        <CopyId id={version.ref} className="text-soft" />
        {environment.description ? (
          <UntrustedText text={environment.description} longest={4096} className="text-sm" />
        ) : null}
      </PageHeader>
      <PageBody>
        {other ? (
          <Panel title={t("changes")}>
            {rows.length === 0 ? (
              <p className="text-sm text-soft">{t("same")}</p>
            ) : (
              <DiffTable
                rows={rows}
                name={t("path")}
                before={t("versionName", { version: nameOf(other) })}
                after={t("versionName", { version: nameOf(version) })}
              />
            )}
          </Panel>
        ) : null}
        <Content version={version} />
      </PageBody>
    </div>
  );
}
