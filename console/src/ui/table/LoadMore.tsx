import { useTranslation } from "react-i18next";
import { Button } from "../Button";

// LoadMore ends a list. A list has no total, so it shows only whether there is more.
export function LoadMore({ more, busy, onMore }: { more: boolean; busy: boolean; onMore: () => void }) {
  const { t } = useTranslation();
  if (!more) return null;
  return (
    <div className="sticky left-0 flex justify-center p-3">
      <Button size="sm" busy={busy} onClick={onMore}>
        {t("loadMore")}
      </Button>
    </div>
  );
}
