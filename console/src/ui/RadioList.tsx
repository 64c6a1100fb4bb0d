import type { ReactNode } from "react";
import { useId } from "react";

type Props<V extends string> = {
  label: string;
  value: V;
  onChange: (value: V) => void;
  options: readonly { value: V; label: string; hint?: ReactNode; disabled?: boolean }[];
};

// RadioList chooses one of a few values that need an explanation.
export function RadioList<V extends string>({ label, value, onChange, options }: Props<V>) {
  const name = useId();
  return (
    <fieldset className="grid gap-1.5">
      <legend className="mb-1 text-sm font-medium">{label}</legend>
      {options.map((option) => (
        <label key={option.value} className="flex items-start gap-2 text-sm">
          <input
            type="radio"
            name={name}
            checked={option.value === value}
            disabled={option.disabled}
            onChange={() => onChange(option.value)}
            className="mt-0.5 size-4 accent-accent"
          />
          <span>
            {option.label}
            {option.hint ? <span className="block text-xs text-soft">{option.hint}</span> : null}
          </span>
        </label>
      ))}
    </fieldset>
  );
}
