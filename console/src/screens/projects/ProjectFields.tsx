import { useTranslation } from "react-i18next";
import { type ApiError, problemOf } from "@/api/error";
import { Field, Input, Select, Textarea } from "@/ui";

export type Values = { key: string; name: string; description: string; visibility: "team" | "all" };

type Props = { values: Values; onChange: (values: Values) => void; error: ApiError | null; withKey: boolean };

// keyFor suggests a key for a name: small letters, digits and hyphens.
export function keyFor(name: string): string {
  return name
    .normalize("NFKD")
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-+|-+$/g, "")
    .slice(0, 40);
}

export function ProjectFields({ values, onChange, error, withKey }: Props) {
  const { t } = useTranslation("projects");
  const set = (change: Partial<Values>) => onChange({ ...values, ...change });
  const rename = (name: string) =>
    set({ name, ...(withKey && values.key === keyFor(values.name) ? { key: keyFor(name) } : {}) });
  const keyError = error?.code === "project_exists" ? t("keyTaken") : problemOf(error, "body", "key");
  return (
    <div className="grid gap-3">
      <Field label={t("name")} error={problemOf(error, "body", "name")}>
        {(control) => (
          <Input
            {...control}
            autoFocus
            required
            maxLength={128}
            value={values.name}
            onChange={(e) => rename(e.target.value)}
          />
        )}
      </Field>
      {withKey ? (
        <Field label={t("key")} hint={t("keyHint")} error={keyError}>
          {(control) => (
            <Input
              {...control}
              required
              pattern="[a-z0-9\-]{2,40}"
              maxLength={40}
              spellCheck={false}
              value={values.key}
              onChange={(e) => set({ key: e.target.value })}
              className="font-mono"
            />
          )}
        </Field>
      ) : null}
      <Field label={t("description")} error={problemOf(error, "body", "description")}>
        {(control) => (
          <Textarea
            {...control}
            maxLength={4096}
            value={values.description}
            onChange={(e) => set({ description: e.target.value })}
          />
        )}
      </Field>
      <Field label={t("visibility")} hint={t(`visibleHint.${values.visibility}`)}>
        {(control) => (
          <Select
            id={control.id}
            value={values.visibility}
            onChange={(visibility) => set({ visibility })}
            options={(["team", "all"] as const).map((value) => ({ value, label: t(`visible.${value}`) }))}
          />
        )}
      </Field>
    </div>
  );
}
