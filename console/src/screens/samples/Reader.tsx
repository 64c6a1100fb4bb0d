import { Star } from "lucide-react";
import { useEffect, useRef } from "react";
import { useTranslation } from "react-i18next";
import { cx } from "@/lib/cx";
import { formatNumber } from "@/lib/format";
import { useFormats } from "@/lib/prefs";
import { CopyButton, ErrorNote, IconButton, SkeletonLines } from "@/ui";
import { useSamePrompt, useWhole } from "./api";
import { Json } from "./Json";
import { PromptSteps } from "./PromptSteps";
import { Reward } from "./Reward";
import { TurnText } from "./TurnText";
import { turns, withheldOf } from "./text";
import type { Choice } from "./use-choice";
import { markOf, type SamplesView } from "./view";
import { Withheld } from "./Withheld";
import { WordDiff } from "./WordDiff";

type Props = {
  runId: string;
  choice: Choice;
  view: SamplesView;
  filter: Pick<SamplesView, "contains" | "min" | "max">;
};

// Reader shows one sample: its turns, its reward and the data that the training added.
export function Reader({ runId, choice, view, filter }: Props) {
  const { t } = useTranslation("samples");
  const { tag } = useFormats();
  const top = useRef<HTMLElement>(null);
  const { whole: sample, pending, error } = useWhole(runId, choice.sample, choice.place, filter);
  const same = useSamePrompt(runId, choice.sample);
  const name = sample ? markOf(sample) : "";
  // biome-ignore lint/correctness/useExhaustiveDependencies: another sample begins at its top
  useEffect(() => {
    if (top.current) top.current.scrollTop = 0;
  }, [name]);

  if (!sample)
    return <div className="px-4 md:px-6">{choice.pending ? <SkeletonLines lines={8} className="pt-4" /> : null}</div>;
  const marked = view.marked?.includes(name) ?? false;
  const before = same.data?.findLast((other) => other.step < sample.step);
  const withheld = withheldOf(sample);
  return (
    <article
      ref={top}
      aria-label={t("sample")}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
      tabIndex={0}
      className="scroll-thin min-h-0 min-w-0 overflow-y-auto px-4 pt-2 pb-8 -outline-offset-2 md:px-6"
    >
      <header className="flex flex-wrap items-center gap-2 pb-2">
        <h2 className="text-sm font-medium tabular">
          {t("heading", { step: formatNumber(sample.step, tag), index: formatNumber(sample.index, tag) })}
        </h2>
        <Reward value={sample.reward} />
        <div className="ml-auto flex items-center gap-1">
          <IconButton
            label={marked ? t("unmark") : t("mark")}
            keys="m"
            aria-pressed={marked}
            icon={<Star size={14} aria-hidden className={cx(marked && "fill-current text-warn")} />}
            onClick={choice.toggleMark}
          />
          <CopyButton text={JSON.stringify(sample)} label={t("copyJson")} />
        </div>
      </header>
      {error ? <ErrorNote error={error} className="mb-2" /> : null}
      {pending ? <p className="pb-2 text-xs text-soft">{t("cut")}</p> : null}
      <PromptSteps
        sample={sample}
        same={same.data ?? []}
        diff={view.diff === true}
        onOpen={choice.open}
        onDiff={choice.toggleDiff}
      />
      {withheld ? <Withheld lengths={withheld} /> : null}
      <div className="grid gap-3">
        {turns(sample.user, "user").map((turn, at) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: the turns keep their order
          <TurnText key={`${name} user ${at}`} {...turn} />
        ))}
        {view.diff && before ? (
          <WordDiff before={before} after={sample} />
        ) : (
          turns(sample.assistant, "assistant").map((turn, at) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: the turns keep their order
            <TurnText key={`${name} assistant ${at}`} {...turn} main />
          ))
        )}
        {turns(sample.env, "env").map((turn, at) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: the turns keep their order
          <TurnText key={`${name} env ${at}`} {...turn} />
        ))}
        {sample.extra && !withheld ? <Json label={t("extra")} value={sample.extra} /> : null}
      </div>
    </article>
  );
}
