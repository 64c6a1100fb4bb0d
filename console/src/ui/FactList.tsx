import type { ReactNode } from "react";
import { CopyButton } from "./CopyButton";

// FactList shows the properties of an object, in two columns on wide windows. Its children are Fact.
export function FactList({ children }: { children: ReactNode }) {
  return (
    <dl className="grid gap-x-6 gap-y-1 rounded-lg border bg-card px-4 py-3 text-sm sm:grid-cols-2">{children}</dl>
  );
}

export function Fact({ label, wide = false, children }: { label: string; wide?: boolean; children: ReactNode }) {
  return (
    <div className={`flex min-h-7 min-w-0 items-baseline gap-3 ${wide ? "sm:col-span-2" : ""}`}>
      <dt className="w-28 shrink-0 text-soft">{label}</dt>
      <dd className="flex min-w-0 flex-wrap items-center gap-x-1">{children}</dd>
    </div>
  );
}

// IdText shows an id with a button that copies it.
export function IdText({ id }: { id: string }) {
  return (
    <span className="inline-flex min-w-0 items-center gap-1">
      <span className="truncate font-mono text-xs">{id}</span>
      <CopyButton text={id} />
    </span>
  );
}
