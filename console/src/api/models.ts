import { useQuery } from "@tanstack/react-query";
import { all } from "./all";
import { api, call, type Schemas } from "./client";

export type Model = Schemas["Model"];
export type ModelVersion = Schemas["ModelVersion"];

// useModel reads a model that another object names by its id.
export function useModel(id: string | null | undefined) {
  return useQuery<Model>({
    queryKey: ["models", id],
    enabled: Boolean(id),
    queryFn: ({ signal }) =>
      call(api.GET("/api/models/{model_id}", { params: { path: { model_id: id ?? "" } }, signal })),
    staleTime: 60_000,
  });
}

const most = 200;

// useModelChoices reads the models that a picker offers.
export function useModelChoices(name: string) {
  return useQuery<Model[]>({
    queryKey: ["models", "choices", name],
    queryFn: ({ signal }) =>
      call(api.GET("/api/models", { params: { query: { limit: most, name: name || undefined } }, signal })),
    staleTime: 15_000,
  });
}

export function useModelVersions(id: string | null | undefined) {
  return useQuery<ModelVersion[]>({
    queryKey: ["models", id, "versions"],
    enabled: Boolean(id),
    queryFn: ({ signal }) =>
      all((limit, offset) =>
        call(
          api.GET("/api/models/{model_id}/versions", {
            params: { path: { model_id: id ?? "" }, query: { limit, offset } },
            signal,
          }),
        ),
      ).then((rows) => rows.toSorted((a, b) => b.version - a.version)),
    refetchInterval: 30_000,
  });
}
