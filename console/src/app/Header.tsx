import { Search } from "lucide-react";
import { useTranslation } from "react-i18next";
import { IconButton } from "@/ui/IconButton";
import { Kbd } from "@/ui/Kbd";
import { AccountMenu } from "./AccountMenu";
import { Breadcrumbs } from "./Breadcrumbs";
import { ProjectSwitcher } from "./ProjectSwitcher";
import type { Overlay } from "./Shell";

const mac = /Mac|iPhone|iPad/.test(navigator.userAgent);

export function Header({ onOverlay }: { onOverlay: (overlay: Overlay) => void }) {
  const { t } = useTranslation();
  return (
    <header className="flex h-11 shrink-0 items-center gap-2 border-b bg-card px-3 md:px-4">
      <ProjectSwitcher />
      <Breadcrumbs />
      <div className="ml-auto flex items-center gap-1">
        <button
          type="button"
          onClick={() => onOverlay("palette")}
          className="hidden h-7 w-48 items-center gap-2 rounded-md border bg-paper px-2 text-xs text-soft hover:border-edge lg:flex"
        >
          <Search size={13} aria-hidden />
          <span className="flex-1 text-left">{t("palette.open")}</span>
          <Kbd keys={mac ? "⌘ K" : "Ctrl K"} />
        </button>
        <IconButton
          label={t("palette.open")}
          icon={<Search size={16} aria-hidden />}
          onClick={() => onOverlay("palette")}
          className="lg:hidden"
        />
        <AccountMenu onKeys={() => onOverlay("keys")} />
      </div>
    </header>
  );
}
