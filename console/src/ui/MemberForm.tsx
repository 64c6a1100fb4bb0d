import { type FormEvent, useState } from "react";
import { Button } from "./Button";
import { ErrorNote } from "./ErrorNote";
import { Input } from "./Input";
import { Select } from "./Select";

type Props<R extends string> = {
  texts: { username: string; role: string; add: string };
  roles: readonly { value: R; label: string; hint: string }[];
  initial: R;
  // add adds the user. The form shows the error with which it fails.
  add: (username: string, role: R) => Promise<void>;
};

// MemberForm adds a user with a role to a project or a team.
export function MemberForm<R extends string>({ texts, roles, initial, add }: Props<R>) {
  const [username, setUsername] = useState("");
  const [role, setRole] = useState<R>(initial);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    const name = username.trim();
    if (busy || name === "") return;
    setBusy(true);
    setError(null);
    try {
      await add(name, role);
      setUsername("");
    } catch (thrown) {
      setError(thrown);
    } finally {
      setBusy(false);
    }
  };
  return (
    <form onSubmit={(event) => void submit(event)} className="border-t px-4 py-2.5">
      <div className="flex flex-wrap items-center gap-2">
        <Input
          aria-label={texts.username}
          placeholder={texts.username}
          autoComplete="off"
          spellCheck={false}
          maxLength={128}
          value={username}
          onChange={(event) => setUsername(event.target.value)}
          className="w-auto min-w-40 flex-1"
        />
        <Select label={texts.role} value={role} onChange={setRole} options={[...roles]} className="w-28" />
        <Button type="submit" busy={busy} disabled={username.trim() === ""}>
          {texts.add}
        </Button>
      </div>
      <p className="mt-1.5 text-xs text-soft">{roles.find(({ value }) => value === role)?.hint}</p>
      {error ? <ErrorNote error={error} className="mt-2" /> : null}
    </form>
  );
}
