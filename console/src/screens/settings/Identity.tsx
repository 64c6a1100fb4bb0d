import { type FormEvent, useState } from "react";
import { useTranslation } from "react-i18next";
import { problemOf } from "@/api/error";
import type { Profile } from "@/auth/profile";
import { Button, ErrorNote, Field, Input, toast } from "@/ui";
import { Section } from "./Section";
import { useSave } from "./use-save";

export function Identity({ profile }: { profile: Profile }) {
  const { t } = useTranslation("settings");
  const { save, busy, error } = useSave();
  const [name, setName] = useState(profile.display_name ?? "");
  const [email, setEmail] = useState(profile.email ?? "");
  const changed = name.trim() !== (profile.display_name ?? "") || email.trim() !== (profile.email ?? "");
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    if (busy || !changed) return;
    const body = {
      ...(name.trim() !== (profile.display_name ?? "") ? { display_name: name.trim() } : {}),
      ...(email.trim() !== (profile.email ?? "") ? { email: email.trim() } : {}),
    };
    if (await save(body)) toast.success(t("saved"));
  };
  return (
    <Section title={t("identity")} hint={t("identityHint", { name: profile.username })}>
      <form onSubmit={(event) => void submit(event)} className="grid gap-3 p-4">
        <Field label={t("displayName")} error={problemOf(error, "body", "display_name")}>
          {(control) => (
            <Input
              {...control}
              // A name that is stored cannot be removed.
              required={profile.display_name !== null}
              autoComplete="name"
              maxLength={128}
              value={name}
              onChange={(e) => setName(e.target.value)}
              className="max-w-md"
            />
          )}
        </Field>
        <Field label={t("email")} error={problemOf(error, "body", "email")}>
          {(control) => (
            <Input
              {...control}
              type="email"
              required={profile.email !== null}
              autoComplete="email"
              maxLength={256}
              value={email}
              onChange={(e) => setEmail(e.target.value)}
              className="max-w-md"
            />
          )}
        </Field>
        {error && error.problems.length === 0 ? <ErrorNote error={error} className="max-w-md" /> : null}
        <div>
          <Button type="submit" variant="primary" busy={busy} disabled={!changed}>
            {t("save")}
          </Button>
        </div>
      </form>
    </Section>
  );
}
