import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { session } from "@/auth/browser";
import { Badge, Duration, ErrorPanel, SkeletonLines, StateBadge, Time, UntrustedText } from "@/ui";
import { Empty, Section } from "./Section";

const shown = 6;

// RecentRuns are the user's newest runs, also those without a job and those whose jobs have ended.
export function RecentRuns({ project }: { project: string | undefined }) {
  const { t } = useTranslation("overview");
  const owner = session.user?.username;
  const { data, error, refetch } = useQuery({
    queryKey: ["runs", "recent", owner, project],
    queryFn: ({ signal }) =>
      call(api.GET("/api/runs", { params: { query: { state: "all", owner, project, limit: shown } }, signal })),
    refetchInterval: 15_000,
  });
  return (
    <Section
      title={t("runs")}
      more={
        <Link
          to="/runs"
          search={(before) => ({ project: before.project, owner })}
          className="text-sm text-accent hover:text-accent-deep hover:underline"
        >
          {t("allMyRuns")}
        </Link>
      }
    >
      {error && !data ? (
        <ErrorPanel error={error} onRetry={() => void refetch()} />
      ) : !data ? (
        <SkeletonLines lines={4} className="px-4 py-3" />
      ) : data.length === 0 ? (
        <Empty>{t("noRuns")}</Empty>
      ) : (
        <ul className="divide-y">
          {data.map((run) => (
            <li
              key={run.id}
              className="grid min-h-8 grid-cols-[7rem_minmax(0,1fr)_auto] items-center gap-x-3 px-4 py-1.5 text-sm sm:grid-cols-[7rem_minmax(0,2fr)_minmax(0,0.6fr)_5rem_5rem] sm:py-0"
            >
              <StateBadge state={run.state} />
              <Link
                to="/runs/$id/{-$tab}"
                params={{ id: run.id, tab: undefined }}
                className="flex min-w-0 items-center gap-2 hover:underline"
              >
                <UntrustedText text={run.name} longest={128} className="truncate font-medium" />
                {run.silence_s === null ? null : <Badge>{t("noJob")}</Badge>}
              </Link>
              <UntrustedText text={run.project} className="hidden truncate text-soft sm:block" />
              <span className="hidden text-right sm:block">
                {run.started_at ? <Duration from={run.started_at} to={run.ended_at} /> : null}
              </span>
              <span className="text-right text-soft">
                <Time at={run.created_at} />
              </span>
            </li>
          ))}
        </ul>
      )}
    </Section>
  );
}
