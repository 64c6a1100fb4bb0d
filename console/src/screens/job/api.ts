import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useState } from "react";
import { api, call, type Schemas } from "@/api/client";
import { byOffset, usePages } from "@/api/pages";
import { rankOfObject, useEventStream } from "@/api/use-event-stream";
import { hasEnded, type Job } from "@/screens/jobs/job";

export type Run = Schemas["Run"];
export type Attempt = Schemas["Attempt"];
export type JobEvent = Schemas["Event"];
export type Summary = Schemas["MetricSummary"];

// useJob reads a job and keeps it up to date by its stream until it ends.
export function useJob(id: string) {
  const client = useQueryClient();
  const [polls, setPolls] = useState(false);
  const query = useQuery({
    queryKey: ["job", id],
    queryFn: ({ signal }) => call(api.GET("/api/jobs/{job_id}", { params: { path: { job_id: id } }, signal })),
    // The position in the queue changes without a change of the job.
    refetchInterval: (q) =>
      polls && q.state.data && !hasEnded(q.state.data) ? 2000 : q.state.data?.queue ? 5000 : false,
  });
  const put = useCallback(
    (job: Job) =>
      client.setQueryData<Job>(["job", id], (before) => (before && before.version >= job.version ? before : job)),
    [client, id],
  );
  const open = query.data !== undefined && !hasEnded(query.data);
  const url = open ? `/api/jobs/${encodeURIComponent(id)}/stream?after=0` : null;
  const { state } = useEventStream(url, rankOfObject, (event) => {
    if (event.event === "job") put(event.data as Job);
  });
  // A stream that was refused for good, or is interrupted, leaves only this.
  useEffect(() => setPolls(state === "waiting" || state === "failed" || state === "reconnecting"), [state]);
  return {
    job: query.data,
    error: query.error,
    retry: () => void query.refetch(),
    put,
    stream: open ? state : "ended",
  } as const;
}

// useRun reads a run with its notes. id may be undefined while it is not known.
export function useRun(id: string | undefined, live = false) {
  return useQuery({
    queryKey: ["run", id],
    queryFn: ({ signal }) => call(api.GET("/api/runs/{run_id}", { params: { path: { run_id: id ?? "" } }, signal })),
    enabled: id !== undefined,
    refetchInterval: live ? 10_000 : false,
  });
}

// useAttempts reads the attempts again when the job changes.
export function useAttempts(job: Job) {
  return useQuery({
    queryKey: ["job", job.id, "attempts", job.version],
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/jobs/{job_id}/attempts", { params: { path: { job_id: job.id }, query: { limit: 500 } }, signal }),
      ),
    placeholderData: (before) => before,
  });
}

export function useEvents(job: Job) {
  const size = 100;
  return usePages(["job", job.id, "events", job.version], size, 0, async (limit, offset, signal) =>
    byOffset(
      await call(
        api.GET("/api/jobs/{job_id}/events", {
          params: { path: { job_id: job.id }, query: { limit, offset } },
          signal,
        }),
      ),
      size,
      offset,
    ),
  );
}

export function useHparams(id: string, live: boolean) {
  return useQuery({
    queryKey: ["run", id, "hparams"],
    queryFn: ({ signal }) => call(api.GET("/api/runs/{id}/hparams", { params: { path: { id } }, signal })),
    refetchInterval: live ? 30_000 : false,
  });
}
