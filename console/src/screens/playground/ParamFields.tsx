import { useTranslation } from "react-i18next";
import { Field, Input, Textarea } from "@/ui";
import type { Params } from "./chat";

type Props = { params: Params; onChange: (params: Params) => void };

// ParamFields are the settings of the next message, for all columns.
export function ParamFields({ params, onChange }: Props) {
  const { t } = useTranslation("playground");
  const number = (name: "temperature" | "topP" | "maxTokens", min: number, max: number, step: number) => (
    <Field label={t(`param.${name}`)}>
      {(control) => (
        <Input
          {...control}
          type="number"
          min={min}
          max={max}
          step={step}
          value={params[name]}
          onChange={(event) => {
            const value = event.target.valueAsNumber;
            if (value >= min && value <= max) onChange({ ...params, [name]: value });
          }}
        />
      )}
    </Field>
  );
  return (
    <div className="mb-3 grid gap-3 sm:grid-cols-[minmax(0,2fr)_repeat(4,minmax(0,7rem))]">
      <Field label={t("param.system")}>
        {(control) => (
          <Textarea
            {...control}
            className="min-h-8!"
            rows={1}
            maxLength={20_000}
            value={params.system}
            onChange={(event) => onChange({ ...params, system: event.target.value })}
          />
        )}
      </Field>
      {number("temperature", 0, 2, 0.1)}
      {number("topP", 0, 1, 0.05)}
      {number("maxTokens", 1, 32_768, 1)}
      <Field label={t("param.seed")}>
        {(control) => (
          <Input
            {...control}
            type="number"
            min={0}
            step={1}
            value={params.seed ?? ""}
            onChange={(event) => {
              const value = event.target.valueAsNumber;
              onChange({ ...params, seed: Number.isInteger(value) && value >= 0 ? value : null });
            }}
          />
        )}
      </Field>
    </div>
  );
}
