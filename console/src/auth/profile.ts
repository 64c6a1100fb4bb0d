import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useRef } from "react";
import { api, call, type Schemas } from "@/api/client";
import { setTheme, type ThemeChoice, themeChoice, themeChoices } from "@/theme/theme";

export type Profile = Schemas["Profile"];
const key = ["profile"];

// useProfile reads the user's profile. The stored theme applies when the page is opened.
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
  }, [profile]);
  return query;
}

// usePreferTheme returns a function that changes the theme at once, and stores the choice in the profile. If that fails,
// the choice stays in this browser.
export function usePreferTheme(): (theme: ThemeChoice) => void {
  const queries = useQueryClient();
  return useCallback(
    (theme) => {
      setTheme(theme);
      call(api.PATCH("/api/profile", { body: { theme } })).then(
        (profile) => queries.setQueryData(key, profile),
        () => undefined,
      );
    },
    [queries],
  );
}
