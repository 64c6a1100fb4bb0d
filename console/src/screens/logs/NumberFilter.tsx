import { useEffect, useState } from "react";
import { Input } from "@/ui";

type Props = { label: string; min: number; value: number | undefined; onChange: (value: number | undefined) => void };

// NumberFilter is a filter by a number, such as a rank. Empty means all.
export function NumberFilter({ label, min, value, onChange }: Props) {
  const [text, setText] = useState(value === undefined ? "" : String(value));
  useEffect(() => setText(value === undefined ? "" : String(value)), [value]);
  return (
    <Input
      inputMode="numeric"
      aria-label={label}
      placeholder={label}
      value={text}
      maxLength={9}
      className="h-7! w-20! text-xs! tabular"
      onChange={(event) => {
        const digits = event.target.value.replace(/\D/g, "");
        setText(digits);
        const number = Number(digits);
        onChange(digits !== "" && number >= min ? number : undefined);
      }}
    />
  );
}
