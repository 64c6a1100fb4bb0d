import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { cx } from "@/lib/cx";
import { heldBySlurm, type Job } from "@/screens/jobs/job";
import { Num, Time, UntrustedText } from "@/ui";
import { areaTabs } from "../tabs";

const tones = {
  neutral: "border-line bg-card",
  bad: "border-transparent bg-bad-tint",
  warn: "border-transparent bg-warn-tint",
};

// Why explains the state of a job: what it waits for, or how it ended. Nothing is shown of a job that just runs.
export function Why({ job }: { job: Job }) {
  return (
    <>
      {job.queue ? <Waiting job={job} queue={job.queue} /> : null}
      {job.end_reason && job.end_reason !== "completed" ? <Ended job={job} /> : null}
      {job.warnings.length > 0 ? <Warnings names={job.warnings} /> : null}
    </>
  );
}

function Waiting({ job, queue }: { job: Job; queue: NonNullable<Job["queue"]> }) {
  const { t } = useTranslation("job");
  const held = heldBySlurm(queue.reason);
  return (
    <Note title={held ? t("why.slurmHolds") : t("why.waits")} tone="neutral">
      <dl className="grid grid-cols-[auto_minmax(0,1fr)] gap-x-4 gap-y-1">
        {held ? (
          <Row name={t("why.slurmReason")}>
            <UntrustedText text={queue.reason} longest={256} />
          </Row>
        ) : (
          <>
            <Row name={t("why.position")}>
              {queue.position > 0 ? (
                <Num value={queue.position} />
              ) : (
                <span className="text-soft">{t("why.noPosition")}</span>
              )}
            </Row>
            <Row name={t("why.gate")}>{t(`queue.${queue.reason}`, { ns: "jobs", defaultValue: queue.reason })}</Row>
          </>
        )}
        {queue.reason_detail ? (
          <Row name={t("why.detail")}>
            <UntrustedText text={queue.reason_detail} longest={2000} />
          </Row>
        ) : null}
        <Row name={t("why.since")}>
          <Time at={queue.since ?? job.created_at} />
        </Row>
      </dl>
      <p className="mt-1.5 text-xs text-soft">{held ? t("why.heldBySlurm") : t("why.noEstimate")}</p>
    </Note>
  );
}

function Ended({ job }: { job: Job }) {
  const { t } = useTranslation("job");
  const failed = job.state === "failed";
  return (
    <Note
      title={t(failed ? "why.failed" : "why.stopped", {
        reason: t(`end.${job.end_reason}`, { ns: "jobs", defaultValue: job.end_reason ?? "" }),
      })}
      tone={failed ? "bad" : "neutral"}
    >
      {job.message ? (
        <pre className="scroll-thin max-h-48 overflow-y-auto font-mono text-xs break-words whitespace-pre-wrap">
          <UntrustedText text={job.message} longest={8000} />
        </pre>
      ) : null}
      {"logs" in areaTabs ? (
        <Link
          to="/jobs/$id/{-$tab}"
          params={{ id: job.id, tab: "logs" }}
          className="mt-1 inline-block text-accent hover:underline"
        >
          {t("why.logs")}
        </Link>
      ) : null}
    </Note>
  );
}

function Warnings({ names }: { names: string[] }) {
  const { t } = useTranslation("job");
  return (
    <Note title={t("why.warnings")} tone="warn">
      <ul className="grid gap-0.5">
        {names.map((name) => (
          <li key={name}>{t(`warnings.${name}`, { defaultValue: name })}</li>
        ))}
      </ul>
    </Note>
  );
}

function Note({ title, tone, children }: { title: string; tone: keyof typeof tones; children: ReactNode }) {
  return (
    <section className={cx("min-w-0 rounded-lg border px-3.5 py-2.5 text-sm", tones[tone])}>
      <h2 className="mb-1 font-semibold">{title}</h2>
      {children}
    </section>
  );
}

function Row({ name, children }: { name: string; children: ReactNode }) {
  return (
    <>
      <dt className="text-soft">{name}</dt>
      <dd className="min-w-0 [overflow-wrap:anywhere]">{children}</dd>
    </>
  );
}
