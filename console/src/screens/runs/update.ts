import { useQueryClient } from "@tanstack/react-query";
import { useCallback } from "react";
import { api, call, type Schemas } from "@/api/client";
import { toApiError } from "@/api/error";
import type { Run } from "./use-runs";

// useUpdate changes what people write about a run. The change is refused if someone else has changed the run meanwhile; the
// page then shows their version.
export function useUpdate(run: Run): (body: Schemas["UpdateRunRequest"]) => Promise<Run> {
  const client = useQueryClient();
  const { id, version } = run;
  return useCallback(
    async (body) => {
      try {
        const params = { path: { run_id: id }, header: { "If-Match": `"${version}"` } };
        const changed = await call(api.PATCH("/api/runs/{run_id}", { params, body }));
        client.setQueryData(["run", id], changed);
        void client.invalidateQueries({ queryKey: ["runs"] });
        return changed;
      } catch (error) {
        if (toApiError(error).status === 409) await client.invalidateQueries({ queryKey: ["run", id] });
        throw error;
      }
    },
    [client, id, version],
  );
}
