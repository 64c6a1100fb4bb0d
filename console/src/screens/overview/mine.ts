import { hasEnded, type Job } from "../jobs/job";

const recent = 24 * 3600 * 1000;

// attention returns at most `most` jobs that matter now, and how many more there are: those that failed within the last day
// first, then those that are paused, then the others that have not ended, each newest first. Many failures do not hide what
// runs: beside other jobs they take half of the places.
export function attention(jobs: readonly Job[], now: number, most: number): { jobs: Job[]; more: number } {
  const newest = jobs.toSorted((a, b) => (a.created_at < b.created_at ? 1 : -1));
  const failed = newest.filter((job) => failedSince(job, now - recent));
  const open = newest.filter((job) => !hasEnded(job));
  const active = [...open.filter((job) => job.state === "paused"), ...open.filter((job) => job.state !== "paused")];
  const places = Math.max(Math.ceil(most / 2), most - active.length);
  const shown = [...failed.slice(0, places), ...active].slice(0, most);
  return { jobs: shown, more: failed.length + active.length - shown.length };
}

function failedSince(job: Job, since: number): boolean {
  return job.state === "failed" && job.ended_at !== null && Date.parse(job.ended_at) >= since;
}
