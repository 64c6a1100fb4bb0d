import { useState } from "react";
import { useTranslation } from "react-i18next";
import { ErrorPanel, SkeletonLines, UntrustedText } from "@/ui";
import { type Dataset, type DatasetVersion, usePreview } from "./api";

type Props = { dataset: Dataset; version: DatasetVersion };

// Preview shows the first rows. A row opens as indented JSON.
export function Preview({ dataset, version }: Props) {
  const { t } = useTranslation("datasets");
  const possible = dataset.format === "jsonl" && version.state !== "uploading" && !dataset.protected;
  const { data, error, refetch } = usePreview(dataset.id, version.version, possible);
  const [open, setOpen] = useState<number | null>(null);
  if (!possible) return <p className="text-sm text-soft">{t("noPreview")}</p>;
  if (error && !data) return <ErrorPanel error={error} onRetry={() => void refetch()} />;
  if (!data) return <SkeletonLines lines={6} />;
  return (
    <>
      <p className="mb-2 font-mono text-xs text-soft">
        <UntrustedText text={data.path} longest={300} />
      </p>
      <ol className="divide-y divide-line/60 rounded-lg border bg-card text-sm">
        {data.rows.map((row) => (
          <li key={row.line} className="flex gap-3 px-3 py-1.5">
            <span className="w-8 shrink-0 text-right text-xs leading-5 text-soft tabular">{row.line}</span>
            {row.error ? (
              <span className="text-bad">
                <UntrustedText text={row.error} longest={300} />
              </span>
            ) : (
              <button
                type="button"
                aria-expanded={open === row.line}
                onClick={() => setOpen(open === row.line ? null : row.line)}
                className="min-w-0 flex-1 rounded text-left font-mono text-xs leading-5 hover:text-accent"
              >
                {open === row.line ? (
                  <span className="break-words whitespace-pre-wrap">
                    <UntrustedText text={JSON.stringify(row.value, null, 2)} longest={65_536} />
                  </span>
                ) : (
                  <span className="block truncate">
                    <UntrustedText text={JSON.stringify(row.value)} longest={400} />
                  </span>
                )}
              </button>
            )}
          </li>
        ))}
      </ol>
      {data.truncated ? <p className="mt-2 text-xs text-soft">{t("truncated", { count: data.rows.length })}</p> : null}
    </>
  );
}
