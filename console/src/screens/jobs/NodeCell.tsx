import { useQuery } from "@tanstack/react-query";
import { api, call } from "@/api/client";
import { Nothing } from "@/ui";
import type { Job } from "./job";

// NodeCell shows the node of the newest attempt. Only the rows that are seen, and only while the column is shown, ask for it.
export function NodeCell({ job }: { job: Job }) {
  const { data } = useQuery({
    queryKey: ["jobs", job.id, "attempt", job.attempt],
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/jobs/{job_id}/attempts", { params: { path: { job_id: job.id }, query: { limit: 500 } }, signal }),
      ),
    enabled: job.attempt > 0,
    staleTime: 60_000,
  });
  const node = data?.find((attempt) => attempt.number === job.attempt)?.node_id;
  return node ? (
    <span className="font-mono text-xs" title={node}>
      {node}
    </span>
  ) : (
    <Nothing />
  );
}
