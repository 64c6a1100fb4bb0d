import { useMemo } from "react";
import { useTranslation } from "react-i18next";
import { formatNumber } from "@/lib/format";
import { useFormats } from "@/lib/prefs";
import { visible } from "@/lib/untrusted";
import type { Sample } from "./api";
import { wordDiff } from "./diff";
import { textOf } from "./text";

const longest = 100_000;

// WordDiff shows how the assistant's text differs from that at an earlier step.
export function WordDiff({ before, after }: { before: Sample; after: Sample }) {
  const { t } = useTranslation("samples");
  const { tag } = useFormats();
  const changes = useMemo(
    () => wordDiff(textOf(before.assistant).slice(0, longest), textOf(after.assistant).slice(0, longest)),
    [before, after],
  );
  return (
    <section className="min-w-0 rounded-lg border border-accent/40 bg-card">
      <h3 className="px-3 pt-1.5 pb-1 text-2xs font-medium text-soft">
        {t("diffTo", { step: formatNumber(before.step, tag) })}
      </h3>
      <div dir="auto" className="px-3 pb-2.5 text-sm break-words whitespace-pre-wrap">
        {changes.map(({ kind, text }, at) => {
          const shown = visible(text, longest).text;
          // biome-ignore lint/suspicious/noArrayIndexKey: the changes keep their order
          if (kind === "same") return <span key={at}>{shown}</span>;
          if (kind === "added")
            return (
              // biome-ignore lint/suspicious/noArrayIndexKey: the changes keep their order
              <ins key={at} className="rounded-sm bg-tint text-accent no-underline">
                {shown}
              </ins>
            );
          return (
            // biome-ignore lint/suspicious/noArrayIndexKey: the changes keep their order
            <del key={at} className="rounded-sm bg-bad-tint text-bad">
              {shown}
            </del>
          );
        })}
      </div>
    </section>
  );
}
