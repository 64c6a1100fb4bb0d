import type { ReactNode } from "react";
import { cx } from "@/lib/cx";

// Panel is a part of a page with a heading.
export function Panel({
  title,
  actions,
  children,
  className,
}: {
  title: string;
  actions?: ReactNode;
  children: ReactNode;
  className?: string;
}) {
  return (
    <section aria-label={title} className={cx("min-w-0", className)}>
      <div className="mb-2 flex min-h-8 flex-wrap items-center gap-2">
        <h2 className="text-base font-semibold tracking-tight">{title}</h2>
        {actions ? <div className="ml-auto flex flex-wrap items-center gap-2">{actions}</div> : null}
      </div>
      {children}
    </section>
  );
}
