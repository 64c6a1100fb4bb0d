import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback } from "react";
import type { Schemas } from "@/api/client";
import { byOffset, usePages } from "@/api/pages";
import { read } from "@/api/read";
import type { SamplesView } from "./view";

// Sample has the digest of its prompt; samples that were reported to an earlier version have none.
export type Sample = Schemas["Sample"] & { prompt?: string | null };
// Round has the mean of its samples' rewards, unless an earlier version received it.
export type Round = Schemas["ValidationRound"] & { mean_reward?: Schemas["ValidationRound"]["avg_reward"] };

const pageSize = 100;
const longestPage = 500;

const base = (runId: string) => `/api/runs/${encodeURIComponent(runId)}`;

// useRounds reads all validation rounds of a run. A run that still reports gets more of them.
export function useRounds(runId: string, live: boolean) {
  return useQuery({
    queryKey: ["run", runId, "validations"],
    queryFn: async ({ signal }) => {
      const rounds: Round[] = [];
      for (;;) {
        const page = await read<Round[]>(
          `${base(runId)}/validations`,
          { limit: longestPage, offset: rounds.length },
          signal,
        );
        rounds.push(...page);
        if (page.length < longestPage || rounds.length >= 20_000) return rounds;
      }
    },
    refetchInterval: live ? 10_000 : false,
  });
}

type Filter = Pick<SamplesView, "contains" | "min" | "max">;

const parameters = (step: number, { contains, min, max }: Filter) => ({
  step,
  text: contains,
  min_reward: min,
  max_reward: max,
});

// useSamples reads the samples of a round page by page.
export function useSamples(runId: string, round: Round | undefined, filter: Filter) {
  const step = round?.step ?? 0;
  const key = ["run", runId, "samples", step, filter.contains, filter.min, filter.max, round?.samples];
  return usePages(
    key,
    pageSize,
    0,
    async (limit, offset, signal) =>
      byOffset(
        await read<Sample[]>(`${base(runId)}/samples`, { ...parameters(step, filter), limit, offset }, signal),
        pageSize,
        offset,
      ),
    { enabled: round !== undefined },
  );
}

// isCut reports whether a text of the sample may have been cut, because its page was too large.
export function isCut(sample: Sample): boolean {
  return [sample.user, sample.assistant, sample.env, sample.extra].some((part) =>
    JSON.stringify(part ?? null).includes("…"),
  );
}

// useWhole reads a sample alone if its page has cut it. place is its place in the list.
export function useWhole(runId: string, sample: Sample | undefined, place: number, filter: Filter) {
  const query = useQuery({
    ...wholeQuery(runId, sample?.step ?? 0, place, filter),
    enabled: sample !== undefined && isCut(sample),
  });
  const whole = query.data?.index === sample?.index ? query.data : undefined;
  return { whole: whole ?? sample, pending: query.isFetching && !whole, error: query.error };
}

function wholeQuery(runId: string, step: number, place: number, filter: Filter) {
  return {
    queryKey: ["run", runId, "sample", step, place, filter.contains, filter.min, filter.max],
    queryFn: async ({ signal }: { signal: AbortSignal }) => {
      const query = { ...parameters(step, filter), limit: 1, offset: place };
      return (await read<Sample[]>(`${base(runId)}/samples`, query, signal))[0] ?? null;
    },
    staleTime: 60_000,
  };
}

// usePrefetch returns a function that reads samples that will be looked at next, if they were cut.
export function usePrefetch(runId: string, filter: Filter) {
  const client = useQueryClient();
  return useCallback(
    (samples: readonly Sample[], first: number) => {
      samples.forEach((sample, at) => {
        if (isCut(sample)) void client.prefetchQuery(wholeQuery(runId, sample.step, first + at, filter));
      });
    },
    [client, runId, filter],
  );
}

// useSamePrompt reads the samples of all rounds that have the same prompt, sorted by step.
export function useSamePrompt(runId: string, sample: Sample | undefined) {
  const prompt = sample?.prompt ?? undefined;
  return useQuery({
    queryKey: ["run", runId, "prompt", prompt],
    queryFn: ({ signal }) => read<Sample[]>(`${base(runId)}/samples`, { prompt, limit: longestPage }, signal),
    enabled: prompt !== undefined,
    staleTime: 30_000,
  });
}
