import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { api, call, type Schemas } from "@/api/client";
import { toApiError } from "@/api/error";
import { EventsTab } from "@/screens/job/EventsTab";
import { EmptyState, ErrorPanel, SkeletonLines } from "@/ui";

// EventsOfJob lists the events of the job of a run. They are deleted with the job, which a run outlives.
export function EventsOfJob({ id, live }: { id: string | null; live: boolean }) {
  const { t } = useTranslation("runs");
  const { data, error, refetch } = useQuery({
    queryKey: ["job", id],
    enabled: id !== null,
    queryFn: ({ signal }) => call(api.GET("/api/jobs/{job_id}", { params: { path: { job_id: id ?? "" } }, signal })),
    refetchInterval: live ? 5_000 : false,
  });
  if (data) return <EventsTab job={data as Schemas["Job"]} />;
  if (id === null || (error && toApiError(error).status === 404))
    return <EmptyState title={t("noJob")} why={t("noJobWhy")} />;
  if (error) return <ErrorPanel error={error} onRetry={() => void refetch()} />;
  return <SkeletonLines lines={5} className="px-4 pt-4 md:px-6" />;
}
