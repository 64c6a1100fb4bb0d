import { Moon, Sun } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { setTheme } from "@/theme/theme";
import { IconButton } from "@/ui";

export function ThemeButton() {
  const { t } = useTranslation("shares");
  const [dark, setDark] = useState(() => document.documentElement.dataset.theme === "dark");
  return (
    <IconButton
      label={dark ? t("light") : t("dark")}
      icon={dark ? <Sun size={14} aria-hidden /> : <Moon size={14} aria-hidden />}
      onClick={() => {
        setTheme(dark ? "light" : "dark");
        setDark(!dark);
      }}
    />
  );
}
