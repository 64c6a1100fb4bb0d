import { integer, list, text } from "@/lib/search";

export type SamplesView = {
  // The step of the round; unset for the last one.
  step?: number;
  // The index of the sample in its round.
  sample?: number;
  // The text that samples contain.
  contains?: string;
  // Rewards: only samples from min to max.
  min?: number;
  max?: number;
  diff?: true;
  // Marked samples, as step.index.
  marked?: string[];
};

const most = Number.MAX_SAFE_INTEGER;

export function samplesView(search: Record<string, unknown>): SamplesView {
  return {
    step: integer(search.step, -most, most),
    sample: integer(search.sample, 0, 2147483647),
    contains: text(search.contains, 1000),
    min: decimal(search.min),
    max: decimal(search.max),
    diff: search.diff === true || search.diff === "true" ? true : undefined,
    marked: list(search.marked, 40, 50),
  };
}

function decimal(value: unknown): number | undefined {
  const number = typeof value === "string" && value !== "" ? Number(value) : value;
  return typeof number === "number" && Number.isFinite(number) ? number : undefined;
}

export function markOf(sample: { step: number; index: number }): string {
  return `${sample.step}:${sample.index}`;
}
