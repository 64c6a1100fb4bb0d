import type { Job } from "@/screens/jobs/job";

export const milestones = ["submitted", "scheduled", "starting", "processes", "running", "ended"] as const;
export type Milestone = (typeof milestones)[number];

// seconds is the time until the next milestone. It is null while no later milestone has been reached.
export type Step = { name: Milestone; at: string | null; seconds: number | null };

// timeline returns the way of a job's newest attempt from its submission to its end. Milestones that a job which ended has
// not reached are left out.
export function timeline(job: Job): Step[] {
  const times: Record<Milestone, string | null> = {
    submitted: job.created_at,
    scheduled: job.scheduled_at,
    starting: job.starting_at,
    processes: job.executor_running_at,
    running: job.running_at,
    ended: job.ended_at ?? job.paused_at,
  };
  const over = times.ended !== null;
  const shown = milestones.filter((name) => times[name] !== null || !over);
  return shown.map((name, at) => {
    const from = times[name];
    const next = shown.slice(at + 1).find((n) => times[n] !== null);
    const to = next ? times[next] : null;
    return { name, at: from, seconds: from && to ? Math.max(0, (Date.parse(to) - Date.parse(from)) / 1000) : null };
  });
}
