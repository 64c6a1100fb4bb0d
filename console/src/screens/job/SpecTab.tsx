import { useMemo } from "react";
import { useTranslation } from "react-i18next";
import { oneOf } from "@/lib/search";
import { useView } from "@/lib/view";
import { Button, CodeBlock, CopyButton, Select } from "@/ui";
import { download } from "./charts/download";
import { toYaml } from "./yaml";

const formats = ["yaml", "json"] as const;
type Format = (typeof formats)[number];
const validate = (search: Record<string, unknown>): { format?: Format } => ({ format: oneOf(search.format, formats) });

// SpecTab shows exactly what was submitted, with all defaults.
export function SpecTab({ spec, digest, name }: { spec: unknown; digest: string; name: string }) {
  const { t } = useTranslation("job");
  const [{ format = "yaml" }, change] = useView(validate);
  const code = useMemo(() => (format === "json" ? JSON.stringify(spec, null, 2) : toYaml(spec)), [spec, format]);
  const type = format === "json" ? "application/json" : "application/yaml";
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] gap-3 px-4 py-4 md:px-6">
      <div className="flex flex-wrap items-center gap-3">
        <Select
          label={t("spec.format")}
          value={format}
          onChange={(next) => change({ format: next === "yaml" ? undefined : next })}
          options={formats.map((value) => ({ value, label: t(`spec.${value}`) }))}
          className="w-28"
        />
        <Button onClick={() => download(new Blob([code], { type }), `${name}.${format}`)}>{t("spec.download")}</Button>
        <span className="flex min-w-0 items-center gap-1 font-mono text-xs text-soft">
          <span className="truncate">{digest}</span>
          <CopyButton text={digest} label={t("spec.copyDigest")} />
        </span>
      </div>
      <CodeBlock code={code} label={t("spec.label")} />
    </div>
  );
}
