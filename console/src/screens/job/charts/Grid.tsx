import { ChevronRight } from "lucide-react";
import { type ReactNode, useLayoutEffect, useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import { cx } from "@/lib/cx";
import { UntrustedText } from "@/ui";

type Props = { title: string; keys: readonly string[]; children: (key: string, points: number) => ReactNode };

// Grid is a section of charts, which can be folded. Its charts get the number of buckets that fits their width.
export function Grid({ title, keys, children }: Props) {
  const { t } = useTranslation("job");
  const [open, setOpen] = useState(true);
  const body = useRef<HTMLDivElement>(null);
  const [points, setPoints] = useState<number | null>(null);
  useLayoutEffect(() => {
    const width = body.current?.clientWidth;
    if (open && width) setPoints(pointsFor(width / columnsFor(width)));
  }, [open]);
  return (
    <section className="px-4 pb-3 md:px-6">
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
          {points === null ? null : keys.map((key) => children(key, points))}
        </div>
      ) : null}
    </section>
  );
}

// columnsFor is the number of columns of the grid, whose charts are at least 21rem wide.
function columnsFor(width: number): number {
  return Math.max(1, Math.floor((width + 12) / (336 + 12)));
}

// pointsFor returns about one and a half buckets a pixel, in steps, so that small changes of the width read nothing new.
export function pointsFor(width: number): number {
  return Math.min(2000, Math.max(200, Math.ceil((width * 1.5) / 200) * 200));
}
