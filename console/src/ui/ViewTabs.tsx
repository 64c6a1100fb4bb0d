import type { ReactNode } from "react";
import { cx } from "@/lib/cx";

type Props<V extends string> = {
  label: string;
  views: readonly { value: V; label: ReactNode }[];
  value: V;
  onChange: (value: V) => void;
};

// ViewTabs switches between views of one page, which is a search parameter of its address. The view itself stands below it,
// so that a table can fill the rest of the page.
export function ViewTabs<V extends string>({ label, views, value, onChange }: Props<V>) {
  return (
    <nav aria-label={label} className="scroll-thin flex shrink-0 gap-4 overflow-x-auto border-b px-4 md:px-6">
      {views.map((view) => (
        <button
          key={view.value}
          type="button"
          aria-current={view.value === value ? "page" : undefined}
          onClick={() => onChange(view.value)}
          className={cx(
            "-mb-px inline-flex h-9 shrink-0 items-center border-b-2 text-sm",
            view.value === value ? "border-accent font-medium text-ink" : "border-transparent text-soft hover:text-ink",
          )}
        >
          {view.label}
        </button>
      ))}
    </nav>
  );
}
