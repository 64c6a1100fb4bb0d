import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useRef } from "react";
import { api, call, type Schemas } from "@/api/client";
import { type Language, languageOf, setLanguage, storedLanguage, tagOf } from "@/i18n/i18n";
import { setTheme, type ThemeChoice, themeChoice, themeChoices } from "@/theme/theme";

export type Profile = Schemas["Profile"];
const key = ["profile"];

// useProfile reads the user's profile. The stored language and theme apply when the page is opened.
export function useProfile() {
  const query = useQuery({
    queryKey: key,
    queryFn: ({ signal }) => call(api.GET("/api/profile", { signal })),
    staleTime: 60_000,
  });
  const applied = useRef(false);
  const profile = query.data;
  useEffect(() => {
    if (!profile || applied.current) return;
    applied.current = true;
    const theme = themeChoices.find((choice) => choice === profile.theme);
    if (theme && theme !== themeChoice()) setTheme(theme);
    const language = languageOf(profile.locale);
    if (language && language !== storedLanguage()) void setLanguage(language);
  }, [profile]);
  return query;
}

export type Preferences = { theme?: ThemeChoice; language?: Language };

// usePreferences returns a function that changes the theme or the language at once, and stores the choice in the profile.
// If that fails, the choice stays in this browser.
export function usePreferences(): (change: Preferences) => void {
  const queries = useQueryClient();
  return useCallback(
    ({ theme, language }) => {
      if (theme) setTheme(theme);
      if (language) void setLanguage(language);
      const body = { ...(theme ? { theme } : {}), ...(language ? { locale: tagOf(language) } : {}) };
      call(api.PATCH("/api/profile", { body })).then(
        (profile) => queries.setQueryData(key, profile),
        () => undefined,
      );
    },
    [queries],
  );
}
