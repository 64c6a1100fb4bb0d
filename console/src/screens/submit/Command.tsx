import { useState } from "react";
import { useTranslation } from "react-i18next";
import { joinArgs, splitArgs } from "@/lib/args";
import { Field, Input } from "@/ui";
import { type Form, problemAt, readAt } from "./form";

const path = ["source", "command"];

// Command is the line that a job of one's own runs. The spec has it as a list of arguments.
export function Command({ form }: { form: Form }) {
  const { t } = useTranslation("submit");
  const value = readAt(form, path);
  const args = Array.isArray(value) ? value.map(String) : [];
  const [typed, setTyped] = useState(joinArgs(args));
  const shown = joinArgs(splitArgs(typed)) === joinArgs(args) ? typed : joinArgs(args);
  return (
    <Field label={t("field.command")} hint={t("hint.command")} error={problemAt(form, path)}>
      {(control) => (
        <Input
          {...control}
          spellCheck={false}
          className="font-mono text-xs"
          value={shown}
          onChange={(event) => {
            setTyped(event.target.value);
            form.set(path, splitArgs(event.target.value));
          }}
        />
      )}
    </Field>
  );
}
