import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { problemOf, toApiError } from "@/api/error";
import type { Job } from "@/screens/jobs/job";
import { Button, Dialog, ErrorNote, Field, Input, Textarea } from "@/ui";
import { record } from "../overview/Hparams";
import { useOnceKey } from "./once";
import { parseHparams, parseInteger } from "./parse";

type Props = { job: Job; onClose: () => void; onCreated: (job: Job) => void };

// CloneDialog submits a job's spec as a new job, with another name, seed, priority or other hyperparameters.
export function CloneDialog({ job, onClose, onCreated }: Props) {
  const { t } = useTranslation("job");
  const before = JSON.stringify(record(record(job.spec).hparams), null, 2);
  const [name, setName] = useState(job.name);
  const [seed, setSeed] = useState("");
  const [priority, setPriority] = useState(String(job.priority));
  const [hparams, setHparams] = useState(before);
  const [busy, setBusy] = useState(false);
  const [thrown, setThrown] = useState<unknown>(null);
  const [key, renew] = useOnceKey();
  const params = parseHparams(hparams);
  const error = thrown ? toApiError(thrown) : null;

  const submit = async () => {
    setBusy(true);
    setThrown(null);
    try {
      const body = {
        name: name.trim() === job.name ? undefined : name.trim(),
        seed: parseInteger(seed),
        priority: parseInteger(priority),
        hparams: hparams === before ? undefined : params,
      };
      const header = { "Idempotency-Key": key };
      onCreated(
        await call(api.POST("/api/jobs/{job_id}/clone", { params: { path: { job_id: job.id }, header }, body })),
      );
      onClose();
    } catch (failed) {
      setThrown(failed);
      renew();
    } finally {
      setBusy(false);
    }
  };

  return (
    <Dialog
      open
      sticky
      size="md"
      onOpenChange={(open) => !open && !busy && onClose()}
      title={t("clone.title", { name: job.name })}
      description={t("clone.what")}
      footer={
        <>
          <Button onClick={onClose}>{t("cancel")}</Button>
          <Button variant="primary" busy={busy} disabled={params === null} onClick={() => void submit()}>
            {t("clone.action")}
          </Button>
        </>
      }
    >
      <div className="grid gap-3">
        <Field label={t("clone.name")} error={problemOf(error, "body", "name")}>
          {(control) => <Input {...control} value={name} maxLength={128} onChange={(e) => setName(e.target.value)} />}
        </Field>
        <div className="grid grid-cols-2 items-start gap-3">
          <Field label={t("clone.seed")} hint={t("clone.seedHint")} error={problemOf(error, "body", "seed")}>
            {(control) => (
              <Input {...control} inputMode="numeric" value={seed} onChange={(e) => setSeed(e.target.value)} />
            )}
          </Field>
          <Field
            label={t("facts.priority")}
            hint={t("clone.priorityHint")}
            error={problemOf(error, "body", "priority")}
          >
            {(control) => (
              <Input {...control} inputMode="numeric" value={priority} onChange={(e) => setPriority(e.target.value)} />
            )}
          </Field>
        </div>
        <Field
          label={t("clone.hparams")}
          hint={t("clone.hparamsHint")}
          error={params === null ? t("clone.notObject") : problemOf(error, "body", "hparams")}
        >
          {(control) => (
            <Textarea
              {...control}
              spellCheck={false}
              rows={8}
              className="font-mono text-xs"
              value={hparams}
              onChange={(e) => setHparams(e.target.value)}
            />
          )}
        </Field>
        {error ? <ErrorNote error={error} /> : null}
      </div>
    </Dialog>
  );
}
