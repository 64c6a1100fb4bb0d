import { useTranslation } from "react-i18next";
import { formatNumber } from "@/lib/format";
import { useFormats } from "@/lib/prefs";
import type { withheldOf } from "./text";

const parts = ["user", "assistant", "env"] as const;

// Withheld stands for the texts of a run that reads a protected dataset.
export function Withheld({ lengths }: { lengths: NonNullable<ReturnType<typeof withheldOf>> }) {
  const { t } = useTranslation("samples");
  const { tag } = useFormats();
  return (
    <div className="mb-3 rounded-lg border bg-sunken px-3 py-2 text-sm">
      <p>{t("withheld")}</p>
      <ul className="mt-1 text-xs text-soft tabular">
        {parts.map((part) => {
          const length = lengths[part];
          if (typeof length !== "number") return null;
          const text = t("characters", { count: length, shown: formatNumber(length, tag) });
          return <li key={part}>{t("partLength", { part: t(`role.${part}`), length: text })}</li>;
        })}
      </ul>
    </div>
  );
}
