import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { useProjects } from "@/app/ProjectSwitcher";
import { Field, Select } from "@/ui";
import { Command } from "./Command";
import { TextField } from "./fields";
import { type Form, problemAt, textOf } from "./form";
import { Inputs } from "./Inputs";
import { More } from "./More";
import { Params } from "./Params";
import { Resources } from "./Resources";
import { custom, inputsOf, type Recipe } from "./start";

export function FormView({ recipe, form }: { recipe: Recipe; form: Form }) {
  const { t } = useTranslation("submit");
  const inputs = inputsOf(recipe);
  return (
    <div className="grid gap-6">
      <Part title={t("part.job")}>
        <div className="grid items-start gap-3 sm:grid-cols-2">
          <TextField form={form} path={["name"]} label={t("field.name")} longest={128} />
          <ProjectField form={form} />
        </div>
        {recipe.name === custom ? <Command form={form} /> : null}
      </Part>
      {inputs.length > 0 ? (
        <Part title={t("part.inputs")}>
          <Inputs inputs={inputs} form={form} />
        </Part>
      ) : null}
      <Part title={t("part.resources")}>
        <Resources form={form} />
      </Part>
      <Params recipe={recipe} form={form} />
      <Part title={t("part.more")}>
        <More form={form} />
      </Part>
    </div>
  );
}

export function Part({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section aria-label={title} className="grid gap-3 rounded-lg border bg-card p-4">
      <h2 className="text-base font-semibold tracking-tight">{title}</h2>
      {children}
    </section>
  );
}

function ProjectField({ form }: { form: Form }) {
  const { t } = useTranslation("submit");
  const { data = [] } = useProjects();
  const value = textOf(form, ["project"]) || "default";
  const keys = data.filter((p) => !p.archived_at).map((p) => p.key);
  const options = keys.includes(value) ? keys : [value, ...keys];
  return (
    <Field label={t("field.project")} error={problemAt(form, ["project"])}>
      {(control) => (
        <Select
          {...control}
          value={value}
          onChange={(next) => form.set(["project"], next)}
          options={options.map((key) => ({ value: key, label: key }))}
        />
      )}
    </Field>
  );
}
