import { ChevronRight } from "lucide-react";
import { type ReactNode, useLayoutEffect, useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import { cx } from "@/lib/cx";
import { UntrustedText } from "@/ui";
import { cardWhole } from "./Slot";

// The heights of the title of a section, and of what is between its rows.
const head = 32;
const gap = 12;

type Props = { title: string; keys: readonly string[]; children: (key: string, points: number) => ReactNode };

// Grid is a section of charts, which can be folded. Its charts get the number of buckets that fits their width.
export function Grid({ title, keys, children }: Props) {
  const { t } = useTranslation("job");
  const [open, setOpen] = useState(true);
  const body = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    if (open) setWidth(body.current?.clientWidth ?? 0);
  }, [open]);
  const columns = columnsFor(width);
  const rows = open ? Math.ceil(keys.length / columns) : 0;
  return (
    // The browser lays out only the sections near the visible part of the page. The height stands for that of the others.
    <section
      style={{ containIntrinsicBlockSize: `auto ${head + rows * (cardWhole + gap)}px` }}
      className="px-4 pb-3 [content-visibility:auto] md:px-6"
    >
      <h2>
        <button
          type="button"
          aria-expanded={open}
          onClick={() => setOpen(!open)}
          className="flex h-8 items-center gap-1.5 text-sm font-semibold hover:text-accent"
        >
          <ChevronRight size={14} aria-hidden className={cx("transition-transform", open && "rotate-90")} />
          <UntrustedText text={title} longest={128} />
          <span className="tabular text-xs font-normal text-soft" title={t("metrics.count", { count: keys.length })}>
            {keys.length}
          </span>
        </button>
      </h2>
      {open ? (
        <div ref={body} className="grid grid-cols-[repeat(auto-fill,minmax(min(100%,21rem),1fr))] gap-3">
          {width === 0 ? null : keys.map((key) => children(key, pointsFor(width / columns)))}
        </div>
      ) : null}
    </section>
  );
}

// columnsFor is the number of columns of the grid, whose charts are at least 21rem wide.
function columnsFor(width: number): number {
  return Math.max(1, Math.floor((width + gap) / (336 + gap)));
}

// pointsFor returns about one and a half buckets a pixel, in steps, so that small changes of the width read nothing new.
export function pointsFor(width: number): number {
  return Math.min(2000, Math.max(200, Math.ceil((width * 1.5) / 200) * 200));
}
