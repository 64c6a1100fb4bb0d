import { useTranslation } from "react-i18next";
import { formatNumber } from "@/lib/format";
import { useFormats } from "@/lib/prefs";
import { type Found, mostFound } from "./use-found";
import type { Log } from "./use-log";

// LogStatus shows how much of the log is on the page, and whether more will come.
export function LogStatus({ log, filtered, live }: { log: Log; filtered: Found | null; live: boolean }) {
  const { t } = useTranslation("logs");
  const { tag } = useFormats();
  const all = t("lines", { count: log.count, shown: formatNumber(log.count, tag) });
  return (
    <footer className="flex flex-wrap items-center gap-x-4 border-t bg-paper px-4 py-1.5 text-xs text-soft tabular md:px-6">
      <span>
        {filtered
          ? t("filtered", {
              count: filtered.count,
              shown: formatNumber(filtered.count, tag),
              all: formatNumber(log.count, tag),
            })
          : all}
      </span>
      {filtered && !filtered.complete && !filtered.error ? (
        <span>{filtered.count >= mostFound ? t("tooMany") : t("partly")}</span>
      ) : null}
      <span role="status" className="ml-auto">
        {log.complete ? t("complete") : log.stream === "open" ? t(live ? "live" : "finishing") : null}
      </span>
    </footer>
  );
}
