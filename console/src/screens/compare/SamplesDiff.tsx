import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { formatNumber } from "@/lib/format";
import { useFormats } from "@/lib/prefs";
import { useRounds } from "@/screens/samples/api";
import { Checkbox, EmptyState, ErrorNote, Select, SkeletonLines } from "@/ui";
import { Against } from "./Against";
import { pairOf } from "./diff";
import { PromptDiff } from "./PromptDiff";
import { alike, commonSteps, stepChoices } from "./samples";
import type { CompareSearch } from "./search";
import type { Compared } from "./use-compared";

type Props = { runs: readonly Compared[]; search: CompareSearch; onChange: (change: CompareSearch) => void };

// The largest number of prompts that the API compares.
const mostPrompts = 20;

// SamplesDiff has the responses of two runs to the same prompts at the same step, side by side.
export default function SamplesDiff({ runs, search, onChange }: Props) {
  const { t } = useTranslation("compare");
  const pair = pairOf(runs, search.against);
  if (!pair) return <EmptyState title={t("two")} why={t("twoWhy")} />;
  return (
    <div className="grid gap-3">
      <Rounds runs={runs} pair={pair} search={search} onChange={onChange} />
    </div>
  );
}

type PairProps = Props & { pair: [Compared, Compared] };

function Rounds({ runs, pair, search, onChange }: PairProps) {
  const { t } = useTranslation("compare");
  const { tag } = useFormats();
  const [base, other] = pair;
  const [left, right] = [useRounds(base.run.id, base.live), useRounds(other.run.id, other.live)];
  const steps = left.data && right.data ? commonSteps(left.data, right.data) : null;
  const step = steps?.find((s) => s === search.step) ?? steps?.at(-1);
  const error = left.error ?? right.error;
  return (
    <>
      <div className="flex flex-wrap items-center gap-x-4 gap-y-2">
        <Against runs={runs} pair={pair} onChange={onChange} />
        {steps && step !== undefined ? (
          <>
            <Select
              label={t("samples.step")}
              value={String(step)}
              onChange={(next) => onChange({ step: Number(next) })}
              options={stepChoices(steps, step).map((value) => ({
                value: String(value),
                label: t("samples.stepIs", { step: formatNumber(value, tag) }),
              }))}
              className="w-36"
            />
            <Checkbox
              showLabel
              label={t("onlyDiffering")}
              checked={search.equal !== true}
              onChange={(on) => onChange({ equal: on ? undefined : true })}
            />
          </>
        ) : null}
      </div>
      {error && !steps ? <ErrorNote error={error} /> : null}
      {!error && !steps ? <SkeletonLines lines={6} /> : null}
      {steps?.length === 0 ? <EmptyState title={t("samples.noStep")} why={t("samples.noStepWhy")} /> : null}
      {step !== undefined ? <Prompts pair={pair} step={step} equal={search.equal === true} /> : null}
    </>
  );
}

function Prompts({ pair, step, equal }: { pair: [Compared, Compared]; step: number; equal: boolean }) {
  const { t } = useTranslation("compare");
  const ids = pair.map((run) => run.run.id);
  const { data, error } = useQuery({
    queryKey: ["compare", "samples", ...ids, step],
    queryFn: ({ signal }) =>
      call(api.POST("/api/runs/compare", { body: { run_ids: ids, keys: [], prompts: mostPrompts, step }, signal })),
    staleTime: 30_000,
  });
  if (error && !data) return <ErrorNote error={error} />;
  if (!data) return <SkeletonLines lines={6} />;
  const all = data.prompts;
  if (all.length === 0) return <EmptyState title={t("samples.noPrompt")} why={t("samples.noPromptWhy")} />;
  const shown = equal ? all : all.filter((prompt) => !alike(prompt));
  if (shown.length === 0) return <EmptyState title={t("samples.alike")} why={t("samples.alikeWhy")} />;
  return (
    <>
      <p role="status" className="text-xs text-soft">
        {t(all.length < mostPrompts ? "samples.shown" : "samples.first", { shown: shown.length, count: all.length })}
      </p>
      {shown.map((prompt, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the prompts keep their order
        <PromptDiff key={`${step} ${at}`} prompt={prompt} pair={pair} />
      ))}
    </>
  );
}
