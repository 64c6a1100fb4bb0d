import { useTranslation } from "react-i18next";
import { cx } from "@/lib/cx";
import { hasEnded, type Job } from "@/screens/jobs/job";
import { Duration, Nothing, Seconds, Time } from "@/ui";
import { type Step, timeline } from "./timeline";

// Timeline shows how long each part of the newest attempt took, from the submission to the start of billing and the end.
export function Timeline({ job }: { job: Job }) {
  const { t } = useTranslation("job");
  const steps = timeline(job);
  const current = hasEnded(job) ? -1 : steps.findLastIndex((s) => s.at !== null);
  return (
    <ol
      aria-label={t("timeline.title")}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
      tabIndex={0}
      className="scroll-thin flex overflow-x-auto rounded-md border bg-card text-xs"
    >
      {steps.map((step, at) => (
        <li
          key={step.name}
          aria-current={at === current ? "step" : undefined}
          className={cx("min-w-28 flex-1 border-l px-3 py-1.5 first:border-l-0", at === current && "bg-tint")}
        >
          <span className="flex items-center gap-1.5 whitespace-nowrap">
            <Mark reached={step.at !== null} current={at === current} />
            <span className={step.at ? "font-medium" : "text-soft"}>
              {t(step.name === "ended" && job.paused_at ? "timeline.paused" : `timeline.${step.name}`)}
            </span>
          </span>
          <span className="mt-0.5 flex gap-2 whitespace-nowrap text-soft">
            {step.at ? <Time at={step.at} /> : <Nothing />}
            <Took step={step} running={at === current} />
          </span>
        </li>
      ))}
    </ol>
  );
}

function Mark({ reached, current }: { reached: boolean; current: boolean }) {
  return (
    <span
      aria-hidden
      className={cx(
        "size-1.5 shrink-0 rounded-full",
        current ? "bg-accent" : reached ? "bg-edge" : "border border-edge",
      )}
    />
  );
}

function Took({ step, running }: { step: Step; running: boolean }) {
  const { t } = useTranslation("job");
  const shown = running ? <Duration from={step.at} /> : step.seconds === null ? null : <Seconds value={step.seconds} />;
  return shown ? (
    <span className="ml-auto text-ink" title={t("timeline.took")}>
      {shown}
    </span>
  ) : null;
}
