import { useVirtualizer } from "@tanstack/react-virtual";
import { Star } from "lucide-react";
import { useEffect, useRef } from "react";
import { useTranslation } from "react-i18next";
import type { Pages } from "@/api/pages";
import { cx } from "@/lib/cx";
import { formatNumber } from "@/lib/format";
import { useFormats } from "@/lib/prefs";
import { Button, ErrorNote, SkeletonLines, UntrustedText } from "@/ui";
import type { Round, Sample } from "./api";
import { Reward } from "./Reward";
import { firstLine, lengthOf } from "./text";
import { markOf } from "./view";

const height = 44;

type Props = {
  list: Pages<Sample>;
  round: Round;
  filtered: boolean;
  selected: number;
  marked: readonly string[];
  onSelect: (place: number) => void;
  onClear: () => void;
};

export function SampleList({ list, round, filtered, selected, marked, onSelect, onClear }: Props) {
  const { t } = useTranslation("samples");
  const { tag } = useFormats();
  const scroller = useRef<HTMLDivElement>(null);
  const { rows, more, loadMore, loadingMore } = list;
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => height,
    overscan: 8,
  });
  const items = virtual.getVirtualItems();
  const last = items.at(-1)?.index ?? 0;
  useEffect(() => {
    if (more && !loadingMore && rows.length > 0 && last + 20 >= rows.length) loadMore();
  }, [more, loadingMore, loadMore, rows.length, last]);
  // Only a change of the selection moves the list.
  useEffect(() => virtual.scrollToIndex(selected, { align: "auto" }), [virtual, selected]);
  const counts = {
    count: round.samples,
    shown: `${formatNumber(rows.length, tag)}${more ? "+" : ""}`,
    all: formatNumber(round.samples, tag),
  };
  return (
    <section
      aria-label={t("list")}
      className="flex max-h-72 flex-col border-b md:max-h-none md:min-h-0 md:border-r md:border-b-0"
    >
      <p role="status" className="border-b px-3 py-1.5 text-2xs text-soft tabular">
        {filtered ? t("filteredCount", counts) : t("sampleCount", { ...counts, shown: counts.all })}
      </p>
      <div ref={scroller} className="scroll-thin relative min-h-40 flex-1 overflow-y-auto">
        {list.error ? <ErrorNote error={list.error} className="m-3" /> : null}
        {list.pending ? <SkeletonLines lines={6} className="px-3" /> : null}
        {!list.pending && !list.error && rows.length === 0 ? (
          <div className="grid justify-items-start gap-2 px-3 py-4 text-sm text-soft">
            {filtered ? t("noMatch") : t("none")}
            {filtered ? <Button onClick={onClear}>{t("clearFilters")}</Button> : null}
          </div>
        ) : null}
        <div className="relative" style={{ height: virtual.getTotalSize() }}>
          {items.map((item) => {
            const sample = rows[item.index];
            if (!sample) return null;
            return (
              <SampleRow
                key={item.index}
                sample={sample}
                top={item.start}
                selected={item.index === selected}
                marked={marked.includes(markOf(sample))}
                onSelect={() => onSelect(item.index)}
              />
            );
          })}
        </div>
      </div>
    </section>
  );
}

type RowProps = { sample: Sample; top: number; selected: boolean; marked: boolean; onSelect: () => void };

function SampleRow({ sample, top, selected, marked, onSelect }: RowProps) {
  const { t } = useTranslation("samples");
  const { tag } = useFormats();
  const line = firstLine(sample);
  const length = lengthOf(sample);
  return (
    <button
      type="button"
      aria-current={selected ? "true" : undefined}
      onClick={onSelect}
      style={{ height, top }}
      className={cx(
        "absolute inset-x-0 grid grid-cols-[minmax(0,1fr)_auto] content-center gap-x-2 px-3 text-left text-xs -outline-offset-2",
        selected ? "bg-tint" : "hover:bg-hover",
      )}
    >
      <span className="truncate">
        {line === "" ? <span className="text-soft">{t("noPrompt")}</span> : <UntrustedText text={line} longest={200} />}
      </span>
      <Reward value={sample.reward} />
      <span className="flex items-center gap-1 text-2xs text-soft tabular">
        {t("index", { index: formatNumber(sample.index, tag) })}
        {marked ? <Star size={11} className="fill-current text-warn" aria-label={t("marked")} /> : null}
      </span>
      <span className="text-right text-2xs text-soft tabular">
        {length === null ? null : t("characters", { count: length, shown: formatNumber(length, tag) })}
      </span>
    </button>
  );
}
