import { useMemo } from "react";
import { useTranslation } from "react-i18next";
import { Field, Select } from "@/ui";
import { Part } from "./FormView";
import { NumberField, TextField } from "./fields";
import { type Form, readAt, textOf } from "./form";
import { groupsOf, type Param, paramsOf } from "./params";
import type { Recipe } from "./start";

const unset = "*";

// Params are the hyperparameters of a recipe, as its schema describes them. A field that is empty has its default.
export function Params({ recipe, form }: { recipe: Recipe; form: Form }) {
  const { t } = useTranslation("submit");
  const groups = useMemo(() => groupsOf(paramsOf(recipe.params_schema)), [recipe.params_schema]);
  return (
    <Part title={t("part.params")}>
      <p className="text-sm text-soft">{t(groups.length > 0 ? "paramsHint" : "paramsFree")}</p>
      {groups.map(([group, params]) => (
        <fieldset key={group} className="grid items-start gap-3 border-t pt-3 sm:grid-cols-2 xl:grid-cols-3">
          <legend className="sr-only">{group || t("part.params")}</legend>
          {params.map((param) => (
            <ParamField key={param.name} param={param} form={form} />
          ))}
        </fieldset>
      ))}
    </Part>
  );
}

function ParamField({ param, form }: { param: Param; form: Form }) {
  const { t } = useTranslation("submit");
  const path = ["hparams", param.name];
  const fallback = param.fallback === undefined ? "" : String(param.fallback);
  const rest = { form, path, label: param.name, hint: param.description, placeholder: fallback };
  if (param.type === "integer" || param.type === "number")
    return <NumberField {...rest} type={param.type} min={param.min} max={param.max} />;
  const choices = param.type === "boolean" ? ["true", "false"] : param.choices;
  if (choices.length === 0) return <TextField {...rest} longest={4096} />;
  const write = (next: string) => {
    if (next === unset) return undefined;
    return param.type === "boolean" ? next === "true" : next;
  };
  return (
    <Field label={param.name} hint={param.description}>
      {(control) => (
        <Select
          {...control}
          value={readAt(form, path) === undefined ? unset : textOf(form, path)}
          onChange={(next) => form.set(path, write(next))}
          options={[
            { value: unset, label: t("byDefault", { value: fallback }) },
            ...choices.map((value) => ({ value, label: value })),
          ]}
        />
      )}
    </Field>
  );
}
