import type { Schemas } from "@/api/client";

export type Prompt = Schemas["ComparedPrompt"];

// commonSteps returns the steps at which both runs have a round, from the lowest to the highest.
export function commonSteps(left: readonly { step: number }[], right: readonly { step: number }[]): number[] {
  const steps = new Set(right.map((round) => round.step));
  return [...new Set(left.map((round) => round.step))].filter((step) => steps.has(step)).sort((a, b) => a - b);
}

const mostSteps = 100;

// stepChoices returns the highest steps and the chosen one, the highest first.
export function stepChoices(steps: readonly number[], chosen: number): number[] {
  const last = steps.slice(-mostSteps).reverse();
  return last.includes(chosen) ? last : [...last, chosen];
}

// alike reports whether all runs gave the same response to a prompt, for the same reward.
export function alike({ samples: [first, ...others] }: Prompt): boolean {
  return others.every((other) => other.assistant === first?.assistant && other.reward === first?.reward);
}
