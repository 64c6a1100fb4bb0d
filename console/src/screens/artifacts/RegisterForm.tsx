import { useState } from "react";
import { useTranslation } from "react-i18next";
import { Button, Bytes, ErrorNote, Field, Input, Num, UntrustedText } from "@/ui";
import { type Artifact, useNamesake } from "./api";
import { fileOf } from "./artifact";

type Props = {
  artifact: Artifact;
  project: string;
  first: string;
  busy: boolean;
  error: unknown;
  problem: string | null;
  onSave: (name: string) => void;
};

export function RegisterForm({ artifact, project, first, busy, error, problem, onSave }: Props) {
  const { t } = useTranslation("artifacts");
  const [name, setName] = useState(first);
  const known = useNamesake(project, name.trim());
  const hint = known.data
    ? t("newVersion", { version: (known.data.latest_version ?? 0) + 1 })
    : t("newModel", { project });
  return (
    <form
      className="grid gap-3"
      onSubmit={(event) => {
        event.preventDefault();
        if (name.trim() !== "") onSave(name.trim());
      }}
    >
      <dl className="grid grid-cols-[auto_1fr] gap-x-4 gap-y-1 rounded-lg border bg-sunken px-3 py-2 text-xs">
        <dt className="text-soft">{t("run")}</dt>
        <dd className="truncate font-mono">{artifact.run_id}</dd>
        <dt className="text-soft">{t("file")}</dt>
        <dd className="truncate font-mono">
          <UntrustedText text={fileOf(artifact)} />
        </dd>
        <dt className="text-soft">{t("step")}</dt>
        <dd>
          <Num value={artifact.step} />
        </dd>
        <dt className="text-soft">{t("size")}</dt>
        <dd>
          <Bytes value={artifact.size_bytes} />
        </dd>
      </dl>
      <Field label={t("model")} hint={known.isFetching ? " " : hint} error={problem}>
        {(control) => (
          <Input {...control} value={name} maxLength={128} required onChange={(event) => setName(event.target.value)} />
        )}
      </Field>
      {error && !problem ? <ErrorNote error={error} /> : null}
      <div className="flex justify-end border-t pt-3">
        <Button type="submit" variant="primary" busy={busy} disabled={name.trim() === ""}>
          {t("registerAction")}
        </Button>
      </div>
    </form>
  );
}
