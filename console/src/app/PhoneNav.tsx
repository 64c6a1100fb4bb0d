import { Link } from "@tanstack/react-router";
import { Menu } from "lucide-react";
import { useTranslation } from "react-i18next";
import { allNav } from "./nav";

const item =
  "flex min-w-0 flex-1 flex-col items-center justify-center gap-0.5 text-2xs text-soft data-[status=active]:text-accent";

// PhoneBar is the bar at the bottom of a phone, with the most used screens and the drawer with all of them.
export function PhoneBar({ onMore }: { onMore: () => void }) {
  const { t } = useTranslation();
  return (
    <nav
      aria-label={t("navigation")}
      className="flex h-13 shrink-0 border-t bg-card pb-[env(safe-area-inset-bottom)] md:hidden"
    >
      {allNav()
        .filter((entry) => entry.phone)
        .slice(0, 4)
        .map((entry) => (
          <Link
            key={entry.label}
            to={entry.to}
            activeOptions={{ exact: entry.to === "/", includeSearch: false }}
            className={item}
          >
            <entry.icon size={18} aria-hidden />
            <span className="max-w-full truncate">{t(`nav.${entry.label}`)}</span>
          </Link>
        ))}
      <button type="button" onClick={onMore} className={item}>
        <Menu size={18} aria-hidden />
        {t("more")}
      </button>
    </nav>
  );
}
