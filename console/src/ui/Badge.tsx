import type { ReactNode } from "react";
import { cx } from "@/lib/cx";

export type Tone = "good" | "bad" | "warn" | "info" | "neutral";

const tones: Record<Tone, string> = {
  good: "bg-tint text-accent",
  bad: "bg-bad-tint text-bad",
  warn: "bg-warn-tint text-warn",
  info: "bg-info-tint text-info",
  neutral: "bg-hover text-soft",
};

export function Badge({
  tone = "neutral",
  children,
  className,
}: {
  tone?: Tone;
  children: ReactNode;
  className?: string;
}) {
  return (
    <span
      className={cx(
        "inline-flex h-5 items-center gap-1 rounded px-1.5 text-xs font-medium whitespace-nowrap",
        tones[tone],
        className,
      )}
    >
      {children}
    </span>
  );
}
