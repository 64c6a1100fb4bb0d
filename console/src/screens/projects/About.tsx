import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { CopyButton, Nothing, Time, UntrustedText } from "@/ui";
import type { Project } from "./project";

export function About({ project }: { project: Project }) {
  const { t } = useTranslation("projects");
  return (
    <dl className="grid gap-x-6 gap-y-1 rounded-lg border bg-card px-4 py-3 text-sm sm:grid-cols-2">
      <Fact label={t("description")} wide>
        {project.description ? (
          <UntrustedText text={project.description} longest={4096} className="whitespace-pre-wrap" />
        ) : (
          <Nothing />
        )}
      </Fact>
      <Fact label={t("key")}>
        <span className="font-mono text-xs">{project.key}</span>
        <CopyButton text={project.key} />
      </Fact>
      <Fact label={t("id")}>
        <span className="truncate font-mono text-xs">{project.id}</span>
        <CopyButton text={project.id} />
      </Fact>
      <Fact label={t("team")}>{project.team_id ? <TeamName id={project.team_id} /> : <Nothing />}</Fact>
      <Fact label={t("created")}>
        <Time at={project.created_at} />
      </Fact>
    </dl>
  );
}

function Fact({ label, wide = false, children }: { label: string; wide?: boolean; children: ReactNode }) {
  return (
    <div className={`flex min-h-7 min-w-0 items-baseline gap-3 ${wide ? "sm:col-span-2" : ""}`}>
      <dt className="w-24 shrink-0 text-soft">{label}</dt>
      <dd className="flex min-w-0 items-center gap-1">{children}</dd>
    </div>
  );
}

function TeamName({ id }: { id: string }) {
  const { data } = useQuery({
    queryKey: ["teams", id],
    queryFn: ({ signal }) => call(api.GET("/api/teams/{team_id}", { params: { path: { team_id: id } }, signal })),
    staleTime: 60_000,
  });
  return <UntrustedText text={data?.name ?? id} longest={128} />;
}
