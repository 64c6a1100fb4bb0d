import { useNavigate } from "@tanstack/react-router";
import { CircleUser, Keyboard, LogOut, Monitor, Moon, Sun } from "lucide-react";
import { useTranslation } from "react-i18next";
import { errorMessage } from "@/api/message";
import { session } from "@/auth/browser";
import { usePreferTheme } from "@/auth/profile";
import { type ThemeChoice, themeChoices, useTheme } from "@/theme/theme";
import { DropdownMenu, MenuItem, MenuLabel, MenuSeparator } from "@/ui/DropdownMenu";
import { toast } from "@/ui/Toaster";

const icons: Record<ThemeChoice, typeof Sun> = { system: Monitor, light: Sun, dark: Moon };

export function AccountMenu({ onKeys }: { onKeys: () => void }) {
  const { t } = useTranslation();
  const { choice } = useTheme();
  const prefer = usePreferTheme();
  const navigate = useNavigate();
  const name = session.user?.username ?? "";
  const leave = () => {
    session.end().catch((error: unknown) => toast.error(errorMessage(t, error)));
  };
  return (
    <DropdownMenu
      trigger={
        <button
          type="button"
          aria-label={t("account", { name })}
          className="flex size-7 items-center justify-center rounded-full bg-tint text-xs font-semibold text-accent uppercase hover:opacity-85"
        >
          {[...name].slice(0, 1)}
        </button>
      }
    >
      <MenuLabel>
        {name} · {t(`roles.${session.user?.role}`)}
      </MenuLabel>
      <MenuSeparator />
      <MenuItem icon={<CircleUser size={14} aria-hidden />} onSelect={() => void navigate({ to: "/settings/profile" })}>
        {t("nav.profile")}
      </MenuItem>
      <MenuSeparator />
      <MenuLabel>{t("theme.title")}</MenuLabel>
      {themeChoices.map((theme) => {
        const Icon = icons[theme];
        return (
          <MenuItem
            key={theme}
            icon={<Icon size={14} aria-hidden className={theme === choice ? "text-accent" : "text-soft"} />}
            onSelect={() => prefer(theme)}
          >
            <span className={theme === choice ? "font-medium" : undefined}>{t(`theme.${theme}`)}</span>
          </MenuItem>
        );
      })}
      <MenuSeparator />
      <MenuItem icon={<Keyboard size={14} aria-hidden />} keys="?" onSelect={onKeys}>
        {t("keys.title")}
      </MenuItem>
      <MenuSeparator />
      <MenuItem icon={<LogOut size={14} aria-hidden />} onSelect={leave}>
        {t("signOut")}
      </MenuItem>
    </DropdownMenu>
  );
}
