import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { cx } from "@/lib/cx";
import { Tooltip } from "@/ui/Tooltip";
import type { NavEntry } from "./area";
import { useNav } from "./nav";

export function NavList({ compact = false, onGo }: { compact?: boolean; onGo?: () => void }) {
  const { t } = useTranslation();
  const groups = useNav();
  return groups.map(({ group, entries }) => (
    <div key={group} className="pt-2 first:pt-0">
      {compact || group === "work" ? null : (
        <h2 className="px-2 pt-1 pb-1 text-2xs font-medium text-soft">{t(`navGroups.${group}`)}</h2>
      )}
      <ul className="grid gap-px">
        {entries.map((entry) => (
          <li key={entry.label}>
            <NavLink entry={entry} compact={compact} onGo={onGo} />
          </li>
        ))}
      </ul>
    </div>
  ));
}

function NavLink({ entry, compact, onGo }: { entry: NavEntry; compact: boolean; onGo?: () => void }) {
  const { t } = useTranslation();
  const label = t(`nav.${entry.label}`);
  const Icon = entry.icon;
  const link = (
    <Link
      to={entry.to}
      onClick={onGo}
      aria-label={compact ? label : undefined}
      activeOptions={{ exact: entry.to === "/", includeSearch: false }}
      className={cx(
        "flex h-8 items-center gap-2.5 rounded-md px-2 text-sm text-soft hover:bg-hover hover:text-ink md:h-7",
        "data-[status=active]:bg-tint data-[status=active]:font-medium data-[status=active]:text-ink",
        compact && "justify-center",
      )}
    >
      <Icon size={15} aria-hidden className="shrink-0" />
      {compact ? null : <span className="truncate">{label}</span>}
    </Link>
  );
  return compact ? (
    <Tooltip text={label} keys={entry.key ? `g ${entry.key}` : undefined}>
      {link}
    </Tooltip>
  ) : (
    link
  );
}
