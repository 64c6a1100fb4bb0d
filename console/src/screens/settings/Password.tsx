import { useQuery } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { type ApiError, toApiError } from "@/api/error";
import { session } from "@/auth/browser";
import { Button, ErrorNote, Field, Input, toast } from "@/ui";
import { Section } from "./Section";

const shortest = 12;

// Password changes the password where users sign in with one. The change revokes all access tokens, so the session is
// refreshed after it.
export function Password() {
  const { t } = useTranslation("settings");
  const config = useQuery({
    queryKey: ["installation"],
    queryFn: ({ signal }) => call(api.GET("/api/auth/config", { signal })),
    staleTime: 60_000,
  });
  const [present, setPresent] = useState("");
  const [fresh, setFresh] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError | null>(null);
  if (!config.data?.methods.includes("password")) return null;
  const short = fresh !== "" && [...fresh].length < shortest;
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    if (busy || short || present === "" || fresh === "") return;
    setBusy(true);
    setError(null);
    try {
      await call(api.POST("/api/profile/password", { body: { current_password: present, new_password: fresh } }));
      setPresent("");
      setFresh("");
      if (!(await session.refresh())) session.lose();
      toast.success(t("passwordChanged"));
    } catch (thrown) {
      setError(toApiError(thrown));
    } finally {
      setBusy(false);
    }
  };
  return (
    <Section title={t("password")} hint={t("passwordHint")}>
      <form onSubmit={(event) => void submit(event)} className="grid gap-3 p-4">
        <input type="text" autoComplete="username" value={session.user?.username ?? ""} readOnly hidden />
        <Field label={t("present")}>
          {(control) => (
            <Input
              {...control}
              type="password"
              autoComplete="current-password"
              maxLength={1024}
              value={present}
              onChange={(e) => setPresent(e.target.value)}
              className="max-w-md"
            />
          )}
        </Field>
        <Field label={t("fresh")} hint={t("freshHint")} error={short ? t("freshHint") : null}>
          {(control) => (
            <Input
              {...control}
              type="password"
              autoComplete="new-password"
              maxLength={1024}
              value={fresh}
              onChange={(e) => setFresh(e.target.value)}
              className="max-w-md"
            />
          )}
        </Field>
        {error ? <ErrorNote error={error} className="max-w-md" /> : null}
        <div>
          <Button type="submit" busy={busy} disabled={present === "" || fresh === "" || short}>
            {t("changePassword")}
          </Button>
        </div>
      </form>
    </Section>
  );
}
