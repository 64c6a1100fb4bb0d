import type { ReactNode } from "react";
import { cx } from "@/lib/cx";

// Facts is a list of names and values in two columns, or in one where it is narrow. It is made of Fact.
export function Facts({
  children,
  narrow = false,
  className,
}: {
  children: ReactNode;
  narrow?: boolean;
  className?: string;
}) {
  return (
    <dl
      className={cx(
        "grid grid-cols-[minmax(0,1fr)] gap-x-6 gap-y-0.5 rounded-lg border bg-card px-4 py-2.5 text-sm",
        !narrow && "sm:grid-cols-2",
        className,
      )}
    >
      {children}
    </dl>
  );
}

export function Fact({ label, wide = false, children }: { label: string; wide?: boolean; children: ReactNode }) {
  return (
    <div className={cx("flex min-h-7 min-w-0 items-center gap-3", wide && "sm:col-span-2")}>
      <dt className="w-28 shrink-0 text-soft [overflow-wrap:anywhere]">{label}</dt>
      <dd className="flex min-w-0 items-center gap-1 [overflow-wrap:anywhere]">{children}</dd>
    </div>
  );
}
