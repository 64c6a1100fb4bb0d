import type { ComponentProps, ReactNode } from "react";
import { cx } from "@/lib/cx";
import { Spinner } from "./Spinner";

export type ButtonVariant = "primary" | "secondary" | "quiet" | "danger";

const variants: Record<ButtonVariant, string> = {
  primary: "bg-accent text-on-accent border-transparent hover:bg-accent-deep",
  secondary: "bg-card text-ink border-line hover:border-edge hover:bg-hover",
  quiet: "bg-transparent text-soft border-transparent hover:bg-hover hover:text-ink",
  danger: "bg-bad text-card border-transparent hover:opacity-90",
};

type Props = ComponentProps<"button"> & {
  variant?: ButtonVariant;
  size?: "sm" | "md";
  icon?: ReactNode;
  // While busy, the button ignores clicks and shows that something happens.
  busy?: boolean;
};

// buttonClass is for links that look like buttons.
export function buttonClass(variant: ButtonVariant = "secondary", size: "sm" | "md" = "md"): string {
  return cx(
    "inline-flex shrink-0 items-center justify-center gap-1.5 rounded-md border font-medium whitespace-nowrap select-none",
    "transition-colors duration-100 disabled:opacity-50 disabled:pointer-events-none",
    size === "sm" ? "h-7 px-2.5 text-xs" : "h-8 px-3 text-sm",
    variants[variant],
  );
}

export function Button({
  variant = "secondary",
  size = "md",
  icon,
  busy = false,
  className,
  children,
  ...rest
}: Props) {
  return (
    <button
      type="button"
      {...rest}
      aria-busy={busy || undefined}
      onClick={busy ? undefined : rest.onClick}
      className={cx(buttonClass(variant, size), busy && "opacity-70", className)}
    >
      {busy ? <Spinner /> : icon}
      {children}
    </button>
  );
}
