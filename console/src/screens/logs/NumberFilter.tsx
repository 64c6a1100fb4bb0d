import { useEffect, useState } from "react";
import { Field, Input } from "@/ui";

type Props = { label: string; min: number; value: number | undefined; onChange: (value: number | undefined) => void };

// NumberFilter is a filter by a number, such as a rank. Empty means all.
export function NumberFilter({ label, min, value, onChange }: Props) {
  const [text, setText] = useState(value === undefined ? "" : String(value));
  useEffect(() => setText(value === undefined ? "" : String(value)), [value]);
  return (
    <Field label={label}>
      {(control) => (
        <Input
          {...control}
          inputMode="numeric"
          value={text}
          maxLength={9}
          className="tabular"
          onChange={(event) => {
            const digits = event.target.value.replace(/\D/g, "");
            setText(digits);
            const number = Number(digits);
            onChange(digits !== "" && number >= min ? number : undefined);
          }}
        />
      )}
    </Field>
  );
}
