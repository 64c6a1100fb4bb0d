import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { useTranslation } from "react-i18next";
import { jumpTo } from "@/app/nav";
import { session } from "@/auth/browser";
import { useNow } from "@/lib/now";
import { Duration, ErrorPanel, SkeletonLines, StateBadge, Time, UntrustedText } from "@/ui";
import type { Job } from "../jobs/job";
import { Progress } from "../jobs/Progress";
import type { LiveJobs } from "../jobs/use-jobs";
import { attention } from "./mine";
import { Empty, Section } from "./Section";

const shown = 8;

export function MyJobs({ live }: { live: LiveJobs }) {
  const { t } = useTranslation("overview");
  const now = useNow(60_000);
  const { jobs, more } = useMemo(() => attention(live.rows, now, shown), [live.rows, now]);
  const me = session.user?.username;
  return (
    <Section
      title={t("myJobs")}
      more={
        <Link
          to="/jobs"
          search={(before) => ({ project: before.project, owner: me })}
          className="text-sm text-accent hover:text-accent-deep hover:underline"
        >
          {t("allMyJobs")}
        </Link>
      }
    >
      {live.error && live.rows.length === 0 ? (
        <ErrorPanel error={live.error} onRetry={live.retry} />
      ) : live.pending ? (
        <SkeletonLines lines={4} className="px-4 py-3" />
      ) : jobs.length === 0 ? (
        <Empty>{t("noJobs")}</Empty>
      ) : (
        <ul className="divide-y">
          {jobs.map((job) => (
            <Row key={job.id} job={job} />
          ))}
          {more > 0 ? <li className="px-4 py-1.5 text-xs text-soft">{t("andMore", { count: more })}</li> : null}
        </ul>
      )}
    </Section>
  );
}

function Row({ job }: { job: Job }) {
  const to = jumpTo(job.id);
  const name = <UntrustedText text={job.name} longest={128} className="truncate font-medium" />;
  return (
    <li className="grid min-h-8 grid-cols-[7rem_minmax(0,1fr)_auto] items-center gap-x-3 px-4 py-1.5 text-sm sm:grid-cols-[7rem_minmax(0,1.4fr)_minmax(0,1.2fr)_minmax(0,0.6fr)_5rem_5rem] sm:py-0">
      <StateBadge state={job.state} />
      {to ? (
        <Link to={to} className="flex min-w-0 hover:underline">
          {name}
        </Link>
      ) : (
        <span className="flex min-w-0">{name}</span>
      )}
      <span className="hidden truncate sm:block">
        <Progress job={job} />
      </span>
      <UntrustedText text={job.project} className="hidden truncate text-soft sm:block" />
      <span className="hidden text-right sm:block">
        <Duration from={job.starting_at} to={job.ended_at ?? job.paused_at} />
      </span>
      <span className="text-right text-soft">
        <Time at={job.created_at} />
      </span>
    </li>
  );
}
