import { useQuery } from "@tanstack/react-query";
import { api, call, type Schemas } from "@/api/client";

export type Lineage = Schemas["Lineage"];
export type LineageNode = Schemas["LineageNode"];
export type LineageEdge = Schemas["LineageEdge"];

// Origin names the object whose lineage is shown.
export type Origin =
  | { kind: "run"; id: string }
  | { kind: "dataset"; id: string; version: string }
  | { kind: "model"; id: string; version: number }
  | { kind: "revision"; id: string; number: number };

function read(of: Origin, signal: AbortSignal): Promise<Lineage> {
  switch (of.kind) {
    case "run":
      return call(api.GET("/api/runs/{id}/lineage", { params: { path: { id: of.id } }, signal }));
    case "dataset":
      return call(
        api.GET("/api/datasets/{dataset_id}/versions/{version}/lineage", {
          params: { path: { dataset_id: of.id, version: of.version } },
          signal,
        }),
      );
    case "model":
      return call(
        api.GET("/api/models/{model_id}/versions/{version}/lineage", {
          params: { path: { model_id: of.id, version: of.version } },
          signal,
        }),
      );
    case "revision":
      return call(
        api.GET("/api/model-deployments/{deployment_id}/revisions/{number}/lineage", {
          params: { path: { deployment_id: of.id, number: of.number } },
          signal,
        }),
      );
  }
}

export function useLineage(of: Origin) {
  return useQuery<Lineage>({ queryKey: ["lineage", of], queryFn: ({ signal }) => read(of, signal) });
}
