import { api, call } from "@/api/client";
import { type ApiError, toApiError } from "@/api/error";
import type { Action, Job } from "./job";

export type Outcome = { job: Job; error: ApiError | null };

// At most this many requests at a time, so that a large selection does not block the browser.
const lanes = 4;

export function act(action: Action, id: string): Promise<Job> {
  const params = { params: { path: { job_id: id } } };
  switch (action) {
    case "pause":
      return call(api.POST("/api/jobs/{job_id}/pause", params));
    case "resume":
      return call(api.POST("/api/jobs/{job_id}/resume", params));
    case "stop":
      return call(api.POST("/api/jobs/{job_id}/stop", params));
  }
}

// actOn does an action with each job, and returns for each the changed job or the error. If the server refuses because
// the state has changed, the job is its current state.
export async function actOn(action: Action, jobs: readonly Job[]): Promise<Outcome[]> {
  const waiting = [...jobs];
  const outcomes: Outcome[] = [];
  const work = async () => {
    for (let job = waiting.shift(); job; job = waiting.shift()) outcomes.push(await one(action, job));
  };
  await Promise.all(Array.from({ length: lanes }, work));
  return outcomes;
}

async function one(action: Action, job: Job): Promise<Outcome> {
  try {
    return { job: await act(action, job.id), error: null };
  } catch (thrown) {
    const error = toApiError(thrown);
    if (error.status !== 409) return { job, error };
    const current = await call(api.GET("/api/jobs/{job_id}", { params: { path: { job_id: job.id } } })).catch(
      () => job,
    );
    return { job: current, error };
  }
}
