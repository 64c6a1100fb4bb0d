import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import type { ModelVersion } from "@/api/models";
import { jumpTo } from "@/app/nav";
import { Nothing, UntrustedText } from "@/ui";
import { CopyId } from "@/ui/CopyId";
import { Fact, Facts } from "@/ui/Facts";

// Lineage is where a version comes from. What the user may not see keeps its id.
export function Lineage({ version }: { version: ModelVersion }) {
  const { t } = useTranslation("models");
  const { source } = version;
  const run = useQuery({
    queryKey: ["runs", source?.run_id],
    enabled: source !== null,
    retry: false,
    queryFn: ({ signal }) =>
      call(api.GET("/api/runs/{run_id}", { params: { path: { run_id: source?.run_id ?? "" } }, signal })),
  });
  if (!source) return <p className="text-sm text-soft">{t("noSource")}</p>;
  const job = run.data?.job_id ?? null;
  return (
    <Facts>
      <Fact label={t("run")} wide>
        <IdLink id={source.run_id} />
        {run.data?.name ? <UntrustedText text={run.data.name} longest={128} className="text-soft" /> : null}
      </Fact>
      <Fact label={t("job")} wide>
        {job ? <IdLink id={job} /> : <Nothing />}
      </Fact>
      <Fact label={t("artifact")} wide>
        <CopyId id={source.artifact_id} />
      </Fact>
      <Fact label={t("digest")} wide>
        <CopyId id={version.digest} />
      </Fact>
    </Facts>
  );
}

// IdLink links to the screen of an id if the console has one.
function IdLink({ id }: { id: string }) {
  const to = jumpTo(id);
  if (!to) return <CopyId id={id} />;
  return (
    <Link to={to} className="font-mono text-xs text-accent hover:underline">
      {id}
    </Link>
  );
}
