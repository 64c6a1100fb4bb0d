import { useTranslation } from "react-i18next";
import { NumberField, TextField } from "./fields";
import type { Form } from "./form";

// More has what most jobs leave at its default.
export function More({ form }: { form: Form }) {
  const { t } = useTranslation("submit");
  return (
    <>
      <div className="grid items-start gap-3 sm:grid-cols-2 xl:grid-cols-4">
        <NumberField
          form={form}
          path={["priority"]}
          label={t("field.priority")}
          hint={t("hint.priority")}
          placeholder="50"
          min={0}
          max={100}
        />
        <NumberField
          form={form}
          path={["seed"]}
          label={t("field.seed")}
          hint={t("hint.seed")}
          min={0}
          max={Number.MAX_SAFE_INTEGER}
        />
        <NumberField
          form={form}
          path={["limits", "running_s"]}
          label={t("field.running")}
          placeholder="86400"
          min={1}
          max={31_536_000}
        />
        <NumberField form={form} path={["retry", "max"]} label={t("field.retries")} placeholder="3" min={0} max={100} />
      </div>
      <TextField form={form} path={["notes"]} label={t("field.notes")} longest={4096} />
      <p className="text-xs text-soft">{t("hint.more")}</p>
    </>
  );
}
