import { Check, Minus } from "lucide-react";
import { Checkbox as Radix } from "radix-ui";
import { cx } from "@/lib/cx";

type Props = {
  checked: boolean | "indeterminate";
  onChange: (checked: boolean) => void;
  label: string;
  id?: string;
  disabled?: boolean;
  // With showLabel the label is text beside the box, otherwise it is only for screen readers.
  showLabel?: boolean;
  tabIndex?: number;
};

export function Checkbox({ checked, onChange, label, id, disabled, showLabel = false, tabIndex }: Props) {
  const box = (
    <Radix.Root
      id={id}
      checked={checked}
      disabled={disabled}
      tabIndex={tabIndex}
      onCheckedChange={(next) => onChange(next === true)}
      aria-label={showLabel ? undefined : label}
      className={cx(
        // The area that can be clicked is larger than the box.
        "relative inline-flex size-4 shrink-0 items-center justify-center rounded border border-edge bg-card text-on-accent",
        "before:absolute before:-inset-1.5 data-[state=checked]:border-accent data-[state=checked]:bg-accent",
        "data-[state=indeterminate]:border-accent data-[state=indeterminate]:bg-accent disabled:opacity-50",
      )}
    >
      <Radix.Indicator>
        {checked === "indeterminate" ? (
          <Minus size={12} strokeWidth={3} aria-hidden />
        ) : (
          <Check size={12} strokeWidth={3} aria-hidden />
        )}
      </Radix.Indicator>
    </Radix.Root>
  );
  if (!showLabel) return box;
  return (
    // biome-ignore lint/a11y/noLabelWithoutControl: the checkbox is inside
    <label className="inline-flex min-h-6 items-center gap-2 text-sm">
      {box}
      {label}
    </label>
  );
}
