import { api, call } from "@/api/client";
import { type LiveList, useLiveList } from "@/api/use-live-list";
import { type JobsQuery, toQuery } from "./filters";
import type { Job } from "./job";

export type LiveJobs = LiveList<Job>;

// useJobs reads the list of jobs page by page and keeps the loaded pages up to date.
export function useJobs(filters: JobsQuery): LiveJobs {
  const { project, state, owner, q, label } = filters;
  return useLiveList({
    url: `/api/jobs/stream?${toQuery(filters)}`,
    event: "job",
    read: (limit, after, signal) =>
      call(api.GET("/api/jobs", { params: { query: { limit, after, project, state, owner, q, label } }, signal })),
  });
}
