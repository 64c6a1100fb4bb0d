import { type FormEvent, useId, useState } from "react";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { type ApiError, toApiError } from "@/api/error";
import { joinArgs, splitArgs } from "@/lib/args";
import { Button, Dialog, ErrorNote, Field, Input, Textarea } from "@/ui";
import { type Picked, VersionPicker } from "../models/VersionPicker";
import { useChanged } from "./api";
import type { Deployment, Revision } from "./deployment";

type Props = { deployment: Deployment; like: Revision | undefined; onClose: () => void };

// NewRevision begins with the settings of the promoted revision. An engine that only the API can describe keeps its
// command and requirements, and the limits of its calls. Otherwise the server chooses the engine by the version's format.
export default function NewRevision({ deployment, like, onClose }: Props) {
  const { t } = useTranslation("deployments");
  const form = useId();
  const changed = useChanged();
  const serving = like?.serving;
  const [picked, setPicked] = useState<Partial<Picked>>(
    like?.source ? { model: like.source.model_id, version: like.source.version } : {},
  );
  const [args, setArgs] = useState(joinArgs(serving?.args ?? []));
  const [pool, setPool] = useState(serving?.pool ?? "default");
  const [gpus, setGpus] = useState(String(serving?.gpus ?? 0));
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError | null>(null);
  const create = async (event: FormEvent) => {
    event.preventDefault();
    if (busy || !picked.model || !picked.version) return;
    setBusy(true);
    setError(null);
    try {
      await call(
        api.POST("/api/model-deployments/{deployment_id}/revisions", {
          params: { path: { deployment_id: deployment.id } },
          body: {
            source: { model_id: picked.model, version: picked.version },
            serving: {
              engine: serving?.engine === "command" ? "command" : "",
              command: serving?.command ?? [],
              requirements: serving?.requirements ?? "",
              args: splitArgs(args),
              pool: pool.trim(),
              gpus: Number(gpus) || 0,
              ...(serving?.timeouts ? { timeouts: serving.timeouts } : {}),
            },
          },
        }),
      );
      await changed();
      onClose();
    } catch (thrown) {
      setError(toApiError(thrown));
      setBusy(false);
    }
  };
  return (
    <Dialog
      open
      size="md"
      onOpenChange={(open) => !open && !busy && onClose()}
      title={t("newRevision")}
      description={t("newRevisionWhy")}
      footer={
        <>
          <Button onClick={onClose}>{t("cancel")}</Button>
          <Button variant="primary" type="submit" form={form} busy={busy} disabled={!picked.model || !picked.version}>
            {t("createAction")}
          </Button>
        </>
      }
    >
      <form id={form} onSubmit={(event) => void create(event)} className="grid gap-3 pt-1">
        <VersionPicker value={picked} onChange={setPicked} project={deployment.project} />
        <Field label={t("options")} hint={t("optionsHint")}>
          {(control) => (
            <Textarea
              {...control}
              spellCheck={false}
              className="min-h-14! font-mono text-xs"
              placeholder="--ctx-size 4096 --parallel 4"
              value={args}
              onChange={(event) => setArgs(event.target.value)}
            />
          )}
        </Field>
        <div className="grid grid-cols-2 gap-3">
          <Field label={t("pool")}>
            {(control) => <Input {...control} maxLength={64} value={pool} onChange={(e) => setPool(e.target.value)} />}
          </Field>
          <Field label={t("gpus")}>
            {(control) => (
              <Input
                {...control}
                type="number"
                min={0}
                max={64}
                value={gpus}
                onChange={(e) => setGpus(e.target.value)}
              />
            )}
          </Field>
        </div>
        {error ? <ErrorNote error={error} /> : null}
      </form>
    </Dialog>
  );
}
