import { useState } from "react";
import { useTranslation } from "react-i18next";
import { errorMessage } from "@/api/message";
import { plain } from "@/lib/untrusted";
import { Button, Dialog, StateBadge, UntrustedText } from "@/ui";
import { actOn, type Outcome } from "./act";
import type { Action, Job } from "./job";

export type Pending = { action: Action; jobs: Job[] };
type Props = { pending: Pending; onClose: () => void; onChanged: (job: Job) => void };

const shown = 8;

// ConfirmAction confirms an action, does it, and lists the jobs that refused it with their current state.
export default function ConfirmAction({ pending, onClose, onChanged }: Props) {
  const { t } = useTranslation("jobs");
  const [busy, setBusy] = useState(false);
  const [refused, setRefused] = useState<Outcome[]>([]);
  const { action, jobs } = pending;
  const single = jobs.length === 1 ? jobs[0] : undefined;

  const confirm = async () => {
    setBusy(true);
    const outcomes = await actOn(action, jobs);
    for (const { job } of outcomes) onChanged(job);
    const failed = outcomes.filter((o) => o.error !== null);
    setBusy(false);
    setRefused(failed);
    if (failed.length === 0) onClose();
  };

  return (
    <Dialog
      open
      onOpenChange={(open) => !open && !busy && onClose()}
      title={
        single
          ? t(`confirm.${action}`, { name: plain(single.name) })
          : t(`confirmMany.${action}`, { count: jobs.length })
      }
      description={t(`consequence.${action}`, { count: jobs.length })}
      footer={
        refused.length > 0 ? (
          <Button onClick={onClose}>{t("close")}</Button>
        ) : (
          <>
            <Button onClick={onClose}>{t("cancel")}</Button>
            <Button
              variant={action === "stop" ? "danger" : "primary"}
              busy={busy}
              autoFocus
              onClick={() => void confirm()}
            >
              {t(`action.${action}`)}
            </Button>
          </>
        )
      }
    >
      {refused.length > 0 ? <Refused outcomes={refused} /> : single ? null : <Names jobs={jobs} />}
    </Dialog>
  );
}

function Names({ jobs }: { jobs: Job[] }) {
  const { t } = useTranslation("jobs");
  return (
    <ul className="rounded-md border bg-sunken px-3 py-1.5 text-sm">
      {jobs.slice(0, shown).map((job) => (
        <li key={job.id} className="truncate">
          <UntrustedText text={job.name} longest={128} />
        </li>
      ))}
      {jobs.length > shown ? <li className="text-soft">{t("andMore", { count: jobs.length - shown })}</li> : null}
    </ul>
  );
}

function Refused({ outcomes }: { outcomes: Outcome[] }) {
  const { t } = useTranslation("errors");
  return (
    <ul role="alert" className="grid gap-2">
      {outcomes.slice(0, 50).map(({ job, error }) => (
        <li key={job.id} className="rounded-md bg-bad-tint px-3 py-2 text-sm">
          <span className="flex items-center justify-between gap-3">
            <UntrustedText text={job.name} longest={128} className="min-w-0 truncate font-medium" />
            <StateBadge state={job.state} />
          </span>
          <span className="text-bad">{errorMessage(t, error)}</span>
        </li>
      ))}
    </ul>
  );
}
