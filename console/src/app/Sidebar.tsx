import { PanelLeftClose, PanelLeftOpen } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { cx } from "@/lib/cx";
import { IconButton } from "@/ui/IconButton";
import { Brand } from "./Brand";
import { NavList } from "./NavList";

const key = "signalbox.sidebar";

// Sidebar is the navigation of wide windows. It can be reduced to icons.
export function Sidebar() {
  const { t } = useTranslation();
  const [narrow, setNarrow] = useState(stored);
  const toggle = () => {
    setNarrow(!narrow);
    try {
      localStorage.setItem(key, narrow ? "wide" : "narrow");
    } catch {
      // Without storage the choice lasts until the page is closed.
    }
  };
  return (
    <nav
      aria-label={t("navigation")}
      className={cx("hidden shrink-0 flex-col border-r bg-card md:flex", narrow ? "w-12" : "w-52")}
    >
      <div className={cx("flex h-11 shrink-0 items-center", narrow ? "justify-center" : "px-3")}>
        <Brand compact={narrow} />
      </div>
      <div className="scroll-thin min-h-0 flex-1 overflow-y-auto px-2 pb-2">
        <NavList compact={narrow} />
      </div>
      <div className={cx("flex p-2", narrow ? "justify-center" : "justify-end")}>
        <IconButton
          label={narrow ? t("expandNavigation") : t("collapseNavigation")}
          icon={narrow ? <PanelLeftOpen size={15} aria-hidden /> : <PanelLeftClose size={15} aria-hidden />}
          onClick={toggle}
        />
      </div>
    </nav>
  );
}

function stored(): boolean {
  try {
    return localStorage.getItem(key) === "narrow";
  } catch {
    return false;
  }
}
