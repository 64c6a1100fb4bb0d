import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { ConfirmDialog, ErrorNote, SkeletonLines, toast } from "@/ui";
import { ReferenceList } from "./ReferenceList";
import type { Run } from "./use-runs";

// DeleteDialog shows what refers to a run before it deletes the run.
export function DeleteDialog({ run, onClose }: { run: Run; onClose: () => void }) {
  const { t } = useTranslation("runs");
  const navigate = useNavigate();
  const client = useQueryClient();
  const params = { path: { run_id: run.id } };
  const { data, error } = useQuery({
    queryKey: ["run", run.id, "references"],
    queryFn: ({ signal }) => call(api.GET("/api/runs/{run_id}/references", { params, signal })),
    gcTime: 0,
  });
  const remove = async () => {
    await call(api.DELETE("/api/runs/{run_id}", { params }));
    toast.success(t("deleteIt.done", { name: run.name }));
    await navigate({ to: "/runs" });
    client.removeQueries({ queryKey: ["run", run.id] });
    void client.invalidateQueries({ queryKey: ["runs"] });
  };
  return (
    <ConfirmDialog
      open
      danger
      onOpenChange={(on) => !on && onClose()}
      title={t("deleteIt.title", { name: run.name })}
      description={t("deleteIt.what")}
      action={t("deleteIt.action")}
      disabled={!data?.deletable}
      onConfirm={remove}
    >
      {data ? <ReferenceList found={data} ended={run.ended_at !== null} /> : error ? null : <SkeletonLines lines={2} />}
      {error ? <ErrorNote error={error} /> : null}
    </ConfirmDialog>
  );
}
