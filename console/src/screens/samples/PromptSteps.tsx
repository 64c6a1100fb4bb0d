import { ChevronLeft, ChevronRight, Diff } from "lucide-react";
import { useTranslation } from "react-i18next";
import { cx } from "@/lib/cx";
import { formatNumber } from "@/lib/format";
import { useFormats } from "@/lib/prefs";
import { Button, IconButton, Num } from "@/ui";
import type { Sample } from "./api";
import { numberOf } from "./text";

type Props = {
  sample: Sample;
  // same are the samples of all rounds with the same prompt, sorted by step.
  same: readonly Sample[];
  diff: boolean;
  onOpen: (sample: Sample) => void;
  onDiff: () => void;
};

// PromptSteps leads to the same prompt at other steps, and to the other completions of it at this step.
export function PromptSteps({ sample, same, diff, onOpen, onDiff }: Props) {
  const { t } = useTranslation("samples");
  const { tag } = useFormats();
  const before = same.findLast((other) => other.step < sample.step);
  const after = same.find((other) => other.step > sample.step);
  const group = same.filter((other) => other.step === sample.step);
  if (!before && !after && group.length < 2) return null;
  const steps = new Set(same.map((other) => other.step)).size;
  const rewards = group.flatMap((other) => numberOf(other.reward) ?? []).filter(Number.isFinite);
  return (
    <div className="mb-3 grid gap-2 rounded-lg border px-2 py-1.5 text-xs">
      <div className="flex flex-wrap items-center gap-1">
        <IconButton
          label={t("earlier")}
          icon={<ChevronLeft size={14} aria-hidden />}
          disabled={!before}
          onClick={() => before && onOpen(before)}
        />
        <IconButton
          label={t("later")}
          icon={<ChevronRight size={14} aria-hidden />}
          disabled={!after}
          onClick={() => after && onOpen(after)}
        />
        <span className="text-soft tabular">{t("seen", { count: steps, shown: formatNumber(steps, tag) })}</span>
        <Button
          size="sm"
          variant="quiet"
          icon={<Diff size={13} aria-hidden />}
          aria-pressed={diff}
          disabled={!before}
          onClick={onDiff}
          className={cx("ml-auto", diff && "bg-tint! text-accent!")}
        >
          {t("diff")}
        </Button>
      </div>
      {group.length > 1 ? (
        <div className="flex flex-wrap items-center gap-1 border-t pt-1.5">
          <span className="mr-1 text-soft tabular">
            {rewards.length > 0
              ? t("group", {
                  count: group.length,
                  low: formatNumber(Math.min(...rewards), tag, { maximumFractionDigits: 3 }),
                  high: formatNumber(Math.max(...rewards), tag, { maximumFractionDigits: 3 }),
                })
              : t("groupOnly", { count: group.length })}
          </span>
          {group.slice(0, 64).map((other) => (
            <button
              key={other.index}
              type="button"
              aria-current={other.index === sample.index ? "true" : undefined}
              aria-label={t("completion", { index: formatNumber(other.index, tag) })}
              onClick={() => onOpen(other)}
              className={cx(
                "h-6 min-w-6 rounded px-1.5",
                other.index === sample.index ? "bg-tint text-accent" : "bg-hover text-ink hover:bg-sunken",
              )}
            >
              <Num value={other.reward} digits={3} />
            </button>
          ))}
        </div>
      ) : null}
    </div>
  );
}
