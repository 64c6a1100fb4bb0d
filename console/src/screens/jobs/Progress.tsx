import { useTranslation } from "react-i18next";
import { plain } from "@/lib/untrusted";
import { Nothing, UntrustedText } from "@/ui";
import { hasEnded, heldBySlurm, type Job } from "./job";

// Progress shows in a few words how far a job is: its place in the queue, its attempt or how it ended.
export function Progress({ job }: { job: Job }) {
  const { t } = useTranslation("jobs");
  if (job.queue) {
    const reason = heldBySlurm(job.queue.reason)
      ? t("slurmReason", { reason: plain(job.queue.reason) })
      : t(`queue.${job.queue.reason}`, { defaultValue: job.queue.reason });
    const place = job.queue.position > 0 ? t("place", { position: job.queue.position }) : "";
    return (
      <span className="text-soft" title={plain(job.queue.reason_detail)}>
        {place ? `${place} · ${reason}` : reason}
      </span>
    );
  }
  if (job.state === "failed" || (job.end_reason && job.end_reason !== "completed")) {
    return (
      <span className={job.state === "failed" ? "text-bad" : "text-soft"} title={plain(job.message)}>
        {t(`end.${job.end_reason}`, { defaultValue: job.end_reason ?? "" })}
      </span>
    );
  }
  if (job.warnings.length > 0) {
    return (
      <span className="text-warn">{job.warnings.map((w) => t(`warning.${w}`, { defaultValue: w })).join(", ")}</span>
    );
  }
  const parts = [
    job.attempt > 1 ? t("attempt", { number: job.attempt }) : "",
    job.checkpoint?.step != null && !hasEnded(job) ? t("checkpoint", { step: job.checkpoint.step }) : "",
  ].filter(Boolean);
  return parts.length > 0 ? <UntrustedText text={parts.join(" · ")} className="text-soft" /> : <Nothing />;
}
