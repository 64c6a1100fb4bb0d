import { useNavigate } from "@tanstack/react-router";
import { lazy, Suspense, useCallback, useState } from "react";
import { useTranslation } from "react-i18next";
import { ErrorPanel, PageHeader, SkeletonLines, StateBadge, type Tab, Tabs, UntrustedText } from "@/ui";
import { CopyId } from "@/ui/CopyId";
import { useDeployment, useRevisions } from "./api";
import { deploymentRoute } from "./area";
import { stateOf } from "./columns";
import type { Deployment } from "./deployment";
import { HeaderActions } from "./HeaderActions";
import { ReasonNote } from "./ReasonNote";
import type { DeploymentSearch, TabName } from "./search";

const Overview = lazy(() => import("./Overview"));
const Revisions = lazy(() => import("./Revisions"));
const Tokens = lazy(() => import("./Tokens"));
const Traffic = lazy(() => import("./Traffic"));
const RevisionLineage = lazy(() => import("./RevisionLineage"));
const Events = lazy(() => import("./Events"));
const Settings = lazy(() => import("./Settings"));

export type Change = (change: Partial<DeploymentSearch>) => void;

export function DeploymentScreen() {
  const { id } = deploymentRoute.useParams();
  const { data, error, refetch } = useDeployment(id);
  if (data) return <Loaded deployment={data.value} etag={data.etag} />;
  if (error) return <ErrorPanel error={error} onRetry={() => void refetch()} />;
  return <SkeletonLines lines={6} className="max-w-2xl p-6" />;
}

function Loaded({ deployment, etag }: { deployment: Deployment; etag: string | null }) {
  const { t } = useTranslation("deployments");
  const search = deploymentRoute.useSearch();
  const navigate = useNavigate({ from: "/deployments/$id" });
  const revisions = useRevisions(deployment.id);
  // A token is kept only while the page is open, so that the snippets can be run at once.
  const [fresh, setFresh] = useState<string | null>(null);
  const change = useCallback<Change>(
    (next) => void navigate({ search: (before) => ({ ...before, ...next }), replace: true }),
    [navigate],
  );
  const shared = { deployment, etag, revisions, search, onChange: change };
  const tab = (value: TabName, content: React.ReactNode): Tab<TabName> => ({
    value,
    label: t(`tabs.${value}`),
    content: (
      <Suspense fallback={<SkeletonLines lines={5} />}>
        {(search.tab ?? "overview") === value ? content : null}
      </Suspense>
    ),
  });
  return (
    <div className="scroll-thin min-h-0 flex-1 overflow-auto">
      <PageHeader
        name={deployment.name}
        lead={<StateBadge state={stateOf(deployment)} />}
        actions={<HeaderActions deployment={deployment} etag={etag} />}
      >
        <div className="flex flex-wrap items-center gap-x-4 text-sm text-soft">
          <CopyId id={deployment.id} />
          <UntrustedText text={deployment.project} longest={64} />
          <UntrustedText text={deployment.owner} longest={128} />
        </div>
        {deployment.reason ? <ReasonNote reason={deployment.reason} /> : null}
      </PageHeader>
      <div className="max-w-[96rem] px-4 pb-8 md:px-6">
        <Tabs<TabName>
          label={t("views")}
          value={search.tab ?? "overview"}
          onChange={(value) => change({ tab: value === "overview" ? undefined : value })}
          tabs={[
            tab("overview", <Overview {...shared} token={fresh} />),
            tab("revisions", <Revisions {...shared} />),
            tab("tokens", <Tokens {...shared} onToken={setFresh} />),
            tab("traffic", <Traffic {...shared} />),
            tab("lineage", <RevisionLineage {...shared} />),
            tab("events", <Events id={deployment.id} />),
            tab("settings", <Settings deployment={deployment} etag={etag} />),
          ]}
        />
      </div>
    </div>
  );
}
