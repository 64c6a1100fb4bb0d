import type { Schemas } from "@/api/client";
import type { JobState } from "./filters";

export type Job = Schemas["Job"];

const ended: readonly JobState[] = ["succeeded", "failed", "stopped"];

export function hasEnded(job: Job): boolean {
  return ended.includes(job.state);
}

type Spec = {
  recipe?: { name?: string; version?: string };
  resources?: { pools?: { pool?: string; nodes?: number | null; gpus_per_node?: number | null }[] };
};

// specOf returns the parts of the spec that lists show. The spec is canonical JSON of any shape.
function specOf(job: Job): Spec {
  return typeof job.spec === "object" && job.spec !== null ? (job.spec as Spec) : {};
}

export function recipeOf(job: Job): { name: string; version: string } {
  const { name = "", version = "" } = specOf(job).recipe ?? {};
  return { name, version };
}

// gpusOf returns how many GPUs the job requests on all of its nodes.
export function gpusOf(job: Job): number {
  return (specOf(job).resources?.pools ?? []).reduce((sum, p) => sum + (p.nodes ?? 1) * (p.gpus_per_node ?? 0), 0);
}

export function poolsOf(job: Job): string[] {
  return [...new Set((specOf(job).resources?.pools ?? []).flatMap((p) => p.pool ?? []))];
}

const ownReasons = ["new", "account_quota", "team_quota", "pool_capacity", "isolation", "priority", "backoff"];

// heldBySlurm reports whether the reason for which a job waits is one of Slurm, which has the job then.
export function heldBySlurm(reason: string): boolean {
  return reason !== "" && !ownReasons.includes(reason);
}

export const actions = ["pause", "resume", "stop"] as const;
export type Action = (typeof actions)[number];

// possible reports whether the state of a job allows an action. The server decides; this only hides what would fail.
export function possible(action: Action, job: Job): boolean {
  switch (action) {
    case "pause":
      return job.state === "running";
    case "resume":
      return job.state === "paused";
    case "stop":
      return !hasEnded(job) && job.state !== "stopping";
  }
}
