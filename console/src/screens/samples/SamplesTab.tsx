import { useMemo } from "react";
import { useTranslation } from "react-i18next";
import { useView } from "@/lib/view";
import { EmptyState, ErrorPanel, SkeletonLines } from "@/ui";
import { useRounds, useSamples } from "./api";
import { Reader } from "./Reader";
import { RoundRail } from "./RoundRail";
import { SampleFilters } from "./SampleFilters";
import { SampleList } from "./SampleList";
import { useChoice } from "./use-choice";
import { samplesView } from "./view";

// SamplesTab shows the samples of a run's validation rounds: the rounds, the samples of one round, and one sample.
export function SamplesTab({ runId, live }: { jobId?: string; runId: string; live: boolean }) {
  const { t } = useTranslation("samples");
  const [view, change] = useView(samplesView);
  const rounds = useRounds(runId, live);
  const all = rounds.data ?? [];
  const round = all.find((r) => r.step === view.step) ?? all.at(-1);
  const { contains, min, max } = view;
  const filter = useMemo(() => ({ contains, min, max }), [contains, min, max]);
  const list = useSamples(runId, round, filter);
  const choice = useChoice(runId, view, change, all, round, list, filter);

  if (rounds.error && !rounds.data) return <ErrorPanel error={rounds.error} onRetry={() => void rounds.refetch()} />;
  if (!rounds.data) return <SkeletonLines lines={8} className="px-4 pt-4 md:px-6" />;
  if (!round)
    return (
      <EmptyState
        title={t("empty")}
        why={t("emptyWhy")}
        command="run.validation(step=step, samples=samples, avg_reward=mean)"
        docs="/docs/reference/api#samples"
      />
    );
  return (
    <div className="flex flex-1 flex-col pt-3 md:min-h-0">
      <SampleFilters view={view} change={change} samples={list.rows} />
      <div className="grid grid-cols-[minmax(0,1fr)] border-t md:min-h-96 md:flex-1 md:grid-cols-[13rem_minmax(14rem,22rem)_minmax(0,1fr)]">
        <RoundRail rounds={all} selected={round.step} onSelect={choice.goToStep} />
        <SampleList
          list={list}
          round={round}
          filtered={contains !== undefined || min !== undefined || max !== undefined}
          selected={choice.place}
          marked={view.marked ?? []}
          onSelect={choice.goTo}
          onClear={() => change({ contains: undefined, min: undefined, max: undefined })}
        />
        <Reader runId={runId} choice={choice} view={view} filter={filter} />
      </div>
    </div>
  );
}
