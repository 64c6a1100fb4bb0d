import { useTranslation } from "react-i18next";
import { useModelChoices, useModelVersions } from "@/api/models";
import { ErrorNote, Field, Select, SkeletonLines } from "@/ui";

export type Picked = { model: string; version: number };
type Props = {
  value: Partial<Picked>;
  onChange: (value: Partial<Picked>) => void;
  project?: string;
};

// VersionPicker chooses a model and one of its versions that can be used.
export function VersionPicker({ value, onChange, project }: Props) {
  const { t } = useTranslation("models");
  const models = useModelChoices("");
  const versions = useModelVersions(value.model);
  if (models.error) return <ErrorNote error={models.error} />;
  if (!models.data) return <SkeletonLines lines={2} />;
  const choices = models.data
    .filter((model) => model.latest_version !== null || model.id === value.model)
    .toSorted((a, b) => Number(b.project === project) - Number(a.project === project) || a.name.localeCompare(b.name));
  if (choices.length === 0) return <p className="text-sm text-soft">{t("nothingToPick")}</p>;
  const usable = versions.data?.filter((v) => v.status === "ready" && v.lifecycle !== "archived") ?? [];
  return (
    <div className="grid gap-3 sm:grid-cols-[minmax(0,2fr)_minmax(0,1fr)]">
      <Field label={t("model")}>
        {(control) => (
          <Select
            {...control}
            label={t("model")}
            value={value.model ?? ""}
            onChange={(model) =>
              onChange({ model, version: choices.find((c) => c.id === model)?.latest_version ?? undefined })
            }
            options={choices.map((model) => ({ value: model.id, label: `${model.project}/${model.name}` }))}
          />
        )}
      </Field>
      <Field label={t("version")}>
        {(control) => (
          <Select
            {...control}
            label={t("version")}
            disabled={!value.model}
            value={value.version === undefined ? "" : String(value.version)}
            onChange={(version) => onChange({ ...value, version: Number(version) })}
            options={usable.map((v) => ({ value: String(v.version), label: `v${v.version} · ${v.format}` }))}
          />
        )}
      </Field>
    </div>
  );
}
