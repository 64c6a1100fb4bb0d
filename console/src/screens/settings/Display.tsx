import { Monitor, Moon, Sun } from "lucide-react";
import { useMemo } from "react";
import { useTranslation } from "react-i18next";
import { type Profile, usePreferTheme } from "@/auth/profile";
import { cx } from "@/lib/cx";
import { formatAbsolute, zoneOr } from "@/lib/format";
import { useNow } from "@/lib/now";
import { useFormats } from "@/lib/prefs";
import { themeChoices, useTheme } from "@/theme/theme";
import { ErrorNote, Field, Select } from "@/ui";
import { Section } from "./Section";
import { useSave } from "./use-save";

const icons = { system: Monitor, light: Sun, dark: Moon };
// Stands for the browser's own zone, because a choice cannot be empty.
const automatic = "*";

// Display has what the console looks like. Each choice is saved at once.
export function Display({ profile }: { profile: Profile }) {
  const { t } = useTranslation("settings");
  const prefer = usePreferTheme();
  const { choice } = useTheme();
  const { tag } = useFormats();
  const { save, error } = useSave();
  const now = useNow(1000);
  const zones = useMemo(
    () => [...new Set([...(profile.tz ? [profile.tz] : []), "UTC", ...Intl.supportedValuesOf("timeZone")])],
    [profile.tz],
  );
  const zone = zoneOr(profile.tz);
  return (
    <Section title={t("display")} hint={t("displayHint")}>
      <div className="grid gap-4 p-4">
        <fieldset>
          <legend className="mb-1 text-sm font-medium">{t("theme.title")}</legend>
          <div className="flex flex-wrap gap-2">
            {themeChoices.map((theme) => {
              const Icon = icons[theme];
              return (
                <button
                  key={theme}
                  type="button"
                  aria-pressed={theme === choice}
                  onClick={() => prefer(theme)}
                  className={cx(
                    "inline-flex h-8 items-center gap-2 rounded-md border px-3 text-sm",
                    theme === choice
                      ? "border-accent bg-tint font-medium"
                      : "border-line text-soft hover:border-edge hover:text-ink",
                  )}
                >
                  <Icon size={14} aria-hidden />
                  {t(`theme.${theme}`)}
                </button>
              );
            })}
          </div>
        </fieldset>
        <Field label={t("zone")} hint={t("zoneNow", { time: formatAbsolute(now, tag, zone) })}>
          {(control) => (
            <Select
              id={control.id}
              value={profile.tz ?? automatic}
              onChange={(tz) => void save({ tz })}
              // A zone that is stored cannot be removed, only changed.
              options={[
                ...(profile.tz ? [] : [{ value: automatic, label: t("zoneAuto") }]),
                ...zones.map((value) => ({ value, label: value })),
              ]}
              className="w-full max-w-xs"
            />
          )}
        </Field>
        {error ? <ErrorNote error={error} className="max-w-md" /> : null}
      </div>
    </Section>
  );
}
