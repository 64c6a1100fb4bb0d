import { Link, type LinkProps } from "@tanstack/react-router";
import { Tabs as Radix } from "radix-ui";
import { type ReactNode, type RefObject, useEffect, useRef } from "react";
import { cx } from "@/lib/cx";

const bar =
  "scroll-thin flex gap-4 overflow-x-auto border-b " +
  "data-[cut=start]:[mask-image:linear-gradient(to_left,#000_calc(100%-2rem),transparent)] " +
  "data-[cut=end]:[mask-image:linear-gradient(to_right,#000_calc(100%-2rem),transparent)] " +
  "data-[cut=both]:[mask-image:linear-gradient(to_right,transparent,#000_2rem_calc(100%-2rem),transparent)]";
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
  const strip = useStrip<HTMLDivElement>();
  return (
    <Radix.Root value={value} onValueChange={(next) => onChange(next as V)} activationMode="manual">
      <Radix.List ref={strip} aria-label={label} className={bar}>
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
  const strip = useStrip<HTMLElement>();
  return (
    <nav ref={strip} aria-label={label} className={bar}>
      {tabs.map((t, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the tabs keep their order
        <Link key={at} {...t.link} className={cx(tab)} activeOptions={{ exact: true, includeSearch: false }}>
          {t.label}
        </Link>
      ))}
    </nav>
  );
}

// useStrip keeps the active tab of a narrow strip in view, and marks at which of its ends tabs are cut.
function useStrip<E extends HTMLElement>(): RefObject<E | null> {
  const strip = useRef<E>(null);
  const shown = useRef<Element | null>(null);
  useEffect(() => {
    const active = strip.current?.querySelector("[data-state=active],[data-status=active]");
    if (!strip.current || !active || active === shown.current) return;
    shown.current = active;
    const [outer, inner] = [strip.current.getBoundingClientRect(), active.getBoundingClientRect()];
    strip.current.scrollLeft += inner.left + inner.width / 2 - outer.left - outer.width / 2;
  });
  useEffect(() => {
    const bar = strip.current;
    if (!bar) return;
    const mark = () => {
      const start = bar.scrollLeft > 1;
      const end = bar.scrollLeft + bar.clientWidth < bar.scrollWidth - 1;
      bar.dataset.cut = start && end ? "both" : start ? "start" : end ? "end" : "none";
    };
    mark();
    const sizes = new ResizeObserver(mark);
    sizes.observe(bar);
    bar.addEventListener("scroll", mark, { passive: true });
    return () => {
      sizes.disconnect();
      bar.removeEventListener("scroll", mark);
    };
  }, []);
  return strip;
}
