import type { ReactNode } from "react";

type Props = { title: string; hint?: string; children: ReactNode; aside?: ReactNode };

// Section is a group of settings, with its explanation beside it on wide windows.
export function Section({ title, hint, children, aside }: Props) {
  return (
    <section
      aria-label={title}
      className="grid max-w-5xl grid-cols-[minmax(0,1fr)] gap-x-8 gap-y-2 md:grid-cols-[15rem_minmax(0,1fr)]"
    >
      <div>
        <h2 className="text-sm font-semibold">{title}</h2>
        {hint ? <p className="mt-0.5 text-xs text-soft">{hint}</p> : null}
        {aside}
      </div>
      <div className="rounded-lg border bg-card">{children}</div>
    </section>
  );
}
