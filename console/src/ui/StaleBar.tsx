import { TriangleAlert } from "lucide-react";
import { useTranslation } from "react-i18next";
import { errorMessage } from "@/api/message";

// StaleBar reports that a part of the page could not be read again, so that it shows the last known state or lacks rows.
export function StaleBar({ error, onRetry }: { error: unknown; onRetry: () => void }) {
  const { t } = useTranslation("errors");
  return (
    <div role="status" className="fade-in flex items-center gap-2 bg-warn-tint px-4 py-1.5 text-xs text-warn md:px-6">
      <TriangleAlert size={13} aria-hidden className="shrink-0" />
      <span className="min-w-0">{t("stale", { ns: "app", why: errorMessage(t, error) })}</span>
      <button type="button" onClick={onRetry} className="ml-auto shrink-0 font-medium underline">
        {t("retry", { ns: "app" })}
      </button>
    </div>
  );
}
