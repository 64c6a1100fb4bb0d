import { Link, type LinkProps } from "@tanstack/react-router";
import { Tabs as Radix } from "radix-ui";
import type { ReactNode } from "react";
import { cx } from "@/lib/cx";

const bar = "scroll-thin flex gap-4 overflow-x-auto border-b";
const tab =
  "-mb-px inline-flex h-9 shrink-0 items-center gap-1.5 border-b-2 border-transparent text-sm text-soft hover:text-ink " +
  "data-[state=active]:border-accent data-[state=active]:text-ink data-[status=active]:border-accent data-[status=active]:text-ink data-[state=active]:font-medium data-[status=active]:font-medium";

export type Tab<V extends string> = { value: V; label: ReactNode; content: ReactNode };

// Tabs switches between views of one address. Views that can be shared as a link use LinkTabs.
export function Tabs<V extends string>({
  tabs,
  value,
  onChange,
  label,
}: {
  tabs: readonly Tab<V>[];
  value: V;
  onChange: (value: V) => void;
  label: string;
}) {
  return (
    <Radix.Root value={value} onValueChange={(next) => onChange(next as V)} activationMode="manual">
      <Radix.List aria-label={label} className={bar}>
        {tabs.map((t) => (
          <Radix.Trigger key={t.value} value={t.value} className={tab}>
            {t.label}
          </Radix.Trigger>
        ))}
      </Radix.List>
      {tabs.map((t) => (
        <Radix.Content key={t.value} value={t.value} className="pt-4 outline-none">
          {t.content}
        </Radix.Content>
      ))}
    </Radix.Root>
  );
}

// LinkTabs is the navigation between the routes of one object, such as the tabs of a job.
export function LinkTabs({ tabs, label }: { tabs: readonly { label: ReactNode; link: LinkProps }[]; label: string }) {
  return (
    <nav aria-label={label} className={bar}>
      {tabs.map((t, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the tabs keep their order
        <Link key={at} {...t.link} className={cx(tab)} activeOptions={{ exact: true, includeSearch: false }}>
          {t.label}
        </Link>
      ))}
    </nav>
  );
}
