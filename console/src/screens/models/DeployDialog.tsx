import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type FormEvent, useId, useState } from "react";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import type { Model, ModelVersion } from "@/api/models";
import { Button, Dialog, ErrorNote, Field, Input, Select } from "@/ui";

type Props = { model: Model; version: ModelVersion; onClose: () => void };
const fresh = "*";

// DeployDialog makes a revision of the version, in a deployment that exists or in a new one.
export default function DeployDialog({ model, version, onClose }: Props) {
  const { t } = useTranslation("models");
  const form = useId();
  const navigate = useNavigate();
  const { data } = useQuery({
    queryKey: ["deployments", "choices"],
    queryFn: ({ signal }) => call(api.GET("/api/model-deployments", { params: { query: { limit: 200 } }, signal })),
  });
  const [target, setTarget] = useState(fresh);
  const [name, setName] = useState(model.name);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const deploy = async (event: FormEvent) => {
    event.preventDefault();
    if (busy) return;
    setBusy(true);
    setError(null);
    try {
      let id = target;
      if (target === fresh) {
        const made = await call(
          api.POST("/api/model-deployments", { body: { name: name.trim(), project: model.project } }),
        );
        // If the revision is refused, a repetition uses the deployment that exists now.
        id = made.id;
        setTarget(id);
      }
      await call(
        api.POST("/api/model-deployments/{deployment_id}/revisions", {
          params: { path: { deployment_id: id } },
          body: { source: { model_id: model.id, version: version.version } },
        }),
      );
      await navigate({ to: "/deployments/$id", params: { id }, search: { tab: "revisions" } });
    } catch (thrown) {
      setError(thrown);
      setBusy(false);
    }
  };
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && !busy && onClose()}
      title={t("deployTitle", { name: model.name, version: version.version })}
      description={t("deployWhy")}
      footer={
        <>
          <Button onClick={onClose}>{t("cancel")}</Button>
          <Button variant="primary" type="submit" form={form} busy={busy}>
            {t("deploy")}
          </Button>
        </>
      }
    >
      <form id={form} onSubmit={(event) => void deploy(event)} className="grid gap-3 pt-1">
        <Field label={t("deployment")}>
          {(control) => (
            <Select
              {...control}
              label={t("deployment")}
              value={target}
              onChange={setTarget}
              options={[
                { value: fresh, label: t("newDeployment") },
                ...(data ?? []).map((d) => ({ value: d.id, label: `${d.project}/${d.name}` })),
              ]}
            />
          )}
        </Field>
        {target === fresh ? (
          <Field label={t("name")}>
            {(control) => (
              <Input {...control} required maxLength={128} value={name} onChange={(e) => setName(e.target.value)} />
            )}
          </Field>
        ) : null}
        {error ? <ErrorNote error={error} /> : null}
      </form>
    </Dialog>
  );
}
