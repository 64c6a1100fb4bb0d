import { ArrowDown } from "lucide-react";
import { useTranslation } from "react-i18next";
import { formatNumber } from "@/lib/format";
import { useFormats } from "@/lib/prefs";

// FollowPill leads back to the end of a log that has grown since the user scrolled up.
export function FollowPill({ shown, count, onClick }: { shown: boolean; count: number; onClick: () => void }) {
  const { t } = useTranslation("logs");
  const { tag } = useFormats();
  if (!shown) return null;
  return (
    <button
      type="button"
      onClick={onClick}
      className="fade-in absolute bottom-4 left-1/2 inline-flex h-8 -translate-x-1/2 items-center gap-1.5 rounded-full bg-accent px-3.5 text-xs font-medium text-on-accent tabular shadow-card hover:bg-accent-deep"
    >
      <ArrowDown size={13} aria-hidden />
      {t("newLines", { count, shown: formatNumber(count, tag) })}
    </button>
  );
}
