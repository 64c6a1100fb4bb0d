import { Check, ChevronDown } from "lucide-react";
import { Select as Radix } from "radix-ui";
import type { ReactNode } from "react";
import { cx } from "@/lib/cx";

export type Option<V extends string> = { value: V; label: ReactNode };

type Props<V extends string> = {
  value: V;
  onChange: (value: V) => void;
  options: readonly Option<V>[];
  // label is the name for screen readers if no Field names the control.
  label?: string;
  id?: string;
  disabled?: boolean;
  className?: string;
  size?: "sm" | "md";
};

// Select chooses one of a few values. The value "" is not possible: name the choice of nothing, such as "all".
export function Select<V extends string>({
  value,
  onChange,
  options,
  label,
  id,
  disabled,
  className,
  size = "md",
}: Props<V>) {
  return (
    <Radix.Root value={value} onValueChange={(next) => onChange(next as V)} disabled={disabled}>
      <Radix.Trigger
        id={id}
        aria-label={label}
        className={cx(
          "inline-flex items-center justify-between gap-1.5 rounded-md border border-edge/60 bg-card px-2.5 text-ink hover:border-edge disabled:opacity-60",
          size === "sm" ? "h-7 text-xs" : "h-8 text-sm",
          className,
        )}
      >
        <span className="truncate">
          <Radix.Value />
        </span>
        <ChevronDown size={14} aria-hidden className="shrink-0 text-soft" />
      </Radix.Trigger>
      <Radix.Portal>
        <Radix.Content
          position="popper"
          sideOffset={4}
          collisionPadding={8}
          className="fade-in z-50 max-h-80 min-w-(--radix-select-trigger-width) overflow-hidden rounded-lg border bg-card p-1 shadow-card"
        >
          <Radix.Viewport>
            {options.map((option) => (
              <Radix.Item
                key={option.value}
                value={option.value}
                className="flex h-7 items-center gap-2 rounded px-2 text-sm outline-none select-none data-highlighted:bg-hover"
              >
                <span className="flex w-4 justify-center text-accent">
                  <Radix.ItemIndicator>
                    <Check size={13} aria-hidden />
                  </Radix.ItemIndicator>
                </span>
                <Radix.ItemText>{option.label}</Radix.ItemText>
              </Radix.Item>
            ))}
          </Radix.Viewport>
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}
