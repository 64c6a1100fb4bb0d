import { useState } from "react";
import { useTranslation } from "react-i18next";
import { Field, Input } from "@/ui";
import type { Path } from "./document";
import { type Form, problemAt, readAt, textOf } from "./form";
import { mistakeOf, numberOf } from "./params";

type Props = { form: Form; path: Path; label: string; hint?: string; placeholder?: string };

export function TextField({
  form,
  path,
  label,
  hint,
  placeholder,
  list,
  longest,
}: Props & { list?: string; longest: number }) {
  return (
    <Field label={label} hint={hint} error={problemAt(form, path)}>
      {(control) => (
        <Input
          {...control}
          value={textOf(form, path)}
          maxLength={longest}
          placeholder={placeholder}
          list={list}
          onChange={(event) => form.set(path, event.target.value === "" ? undefined : event.target.value)}
        />
      )}
    </Field>
  );
}

type NumberProps = Props & { type?: "integer" | "number"; min?: number; max?: number };

// NumberField writes a number into the spec. The text that is being typed stays as it is while it means the same number.
export function NumberField({ form, path, label, hint, placeholder, type = "integer", min, max }: NumberProps) {
  const { t } = useTranslation("submit");
  const value = readAt(form, path);
  const [typed, setTyped] = useState(textOf(form, path));
  const shown = Object.is(numberOf(typed), value ?? undefined) ? typed : textOf(form, path);
  const mistake = mistakeOf({ type, min, max }, value ?? undefined);
  return (
    <Field
      label={label}
      hint={hint}
      error={mistake ? t(`mistake.${mistake.key}`, { limit: mistake.limit }) : problemAt(form, path)}
    >
      {(control) => (
        <Input
          {...control}
          inputMode={type === "integer" ? "numeric" : "decimal"}
          autoComplete="off"
          className="tabular"
          value={shown}
          maxLength={40}
          placeholder={placeholder}
          onChange={(event) => {
            setTyped(event.target.value);
            form.set(path, numberOf(event.target.value));
          }}
        />
      )}
    </Field>
  );
}
