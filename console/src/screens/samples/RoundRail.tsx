import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useRef } from "react";
import { useTranslation } from "react-i18next";
import { cx } from "@/lib/cx";
import { formatNumber } from "@/lib/format";
import { useFormats } from "@/lib/prefs";
import { Num } from "@/ui";
import type { Round } from "./api";
import { Sparkline } from "./Sparkline";
import { numberOf } from "./text";

const height = 40;

type Props = { rounds: readonly Round[]; selected: number; onSelect: (step: number) => void };

export const rewardOf = (round: Round) => round.mean_reward ?? round.avg_reward;

// RoundRail lists the validation rounds, with their mean reward over the steps above them.
export function RoundRail({ rounds, selected, onSelect }: Props) {
  const { t } = useTranslation("samples");
  const scroller = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: rounds.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => height,
    overscan: 6,
  });
  const at = rounds.findIndex((round) => round.step === selected);
  useEffect(() => {
    if (at >= 0) virtual.scrollToIndex(at, { align: "auto" });
  }, [virtual, at]);
  return (
    <nav
      aria-label={t("rounds")}
      className="flex max-h-48 flex-col border-b md:max-h-none md:min-h-0 md:border-r md:border-b-0"
    >
      <div className="border-b px-3 py-2">
        <div className="flex justify-between text-2xs text-soft">
          <span>{t("meanReward")}</span>
          <span className="tabular">{t("roundCount", { count: rounds.length })}</span>
        </div>
        <Sparkline values={rounds.map((round) => numberOf(rewardOf(round)))} selected={at} />
      </div>
      <div ref={scroller} className="scroll-thin relative min-h-24 flex-1 overflow-y-auto">
        <div className="relative" style={{ height: virtual.getTotalSize() }}>
          {virtual.getVirtualItems().map((item) => {
            const round = rounds[item.index];
            if (!round) return null;
            return (
              <RoundRow
                key={round.step}
                round={round}
                top={item.start}
                selected={round.step === selected}
                onSelect={onSelect}
              />
            );
          })}
        </div>
      </div>
    </nav>
  );
}

type RowProps = { round: Round; top: number; selected: boolean; onSelect: (step: number) => void };

function RoundRow({ round, top, selected, onSelect }: RowProps) {
  const { t } = useTranslation("samples");
  const { tag } = useFormats();
  const count = { count: round.samples, shown: formatNumber(round.samples, tag) };
  return (
    <button
      type="button"
      aria-current={selected ? "true" : undefined}
      onClick={() => onSelect(round.step)}
      style={{ height, top }}
      className={cx(
        "absolute inset-x-0 grid grid-cols-[1fr_auto] content-center gap-x-2 px-3 text-left text-xs -outline-offset-2",
        selected ? "bg-tint" : "hover:bg-hover",
      )}
    >
      <span className={cx("truncate tabular", selected && "font-medium")}>
        {t("step", { step: formatNumber(round.step, tag) })}
      </span>
      <span className="text-right">
        <Num value={rewardOf(round)} digits={3} />
      </span>
      <span className={cx("truncate text-2xs tabular", round.complete ? "text-soft" : "text-warn")}>
        {round.complete ? t("sampleCount", count) : t("chunks", { have: round.chunks, all: round.total_chunks })}
      </span>
      <span className="text-right text-2xs text-soft">
        {round.accuracy === null ? null : t("accuracy", { value: percent(round.accuracy, tag) })}
      </span>
    </button>
  );
}

function percent(value: number | string, tag: string): string {
  return typeof value === "string" ? value : formatNumber(value, tag, { style: "percent", maximumFractionDigits: 1 });
}
