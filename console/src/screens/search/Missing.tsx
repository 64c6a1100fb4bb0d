import { TriangleAlert } from "lucide-react";
import { useTranslation } from "react-i18next";

// Missing states which kinds were not searched.
export function Missing({ kinds }: { kinds: readonly string[] }) {
  const { t } = useTranslation("search");
  if (kinds.length === 0) return null;
  return (
    <p role="status" className="flex items-center gap-2 text-sm text-warn">
      <TriangleAlert size={14} aria-hidden className="shrink-0" />
      {t("missing", { kinds: kinds.map((kind) => t(`kinds.${kind}`)).join(t("and")) })}
    </p>
  );
}
