import type { ReactNode } from "react";

// Section is a titled block of the overview. more leads to the whole list.
export function Section({ title, more, children }: { title: string; more?: ReactNode; children: ReactNode }) {
  return (
    <section aria-label={title}>
      <div className="flex h-8 items-center justify-between">
        <h2 className="text-sm font-semibold">{title}</h2>
        {more}
      </div>
      <div className="overflow-hidden rounded-lg border bg-card">{children}</div>
    </section>
  );
}

export function Empty({ children }: { children: ReactNode }) {
  return <p className="px-4 py-5 text-sm text-soft">{children}</p>;
}
