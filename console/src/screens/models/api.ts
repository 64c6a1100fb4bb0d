import { type QueryKey, useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback } from "react";
import { api, call, type Schemas } from "@/api/client";
import type { Model, ModelVersion } from "@/api/models";
import { byOffset, usePages } from "@/api/pages";
import { ifMatch, type Tagged, tagged } from "@/api/tagged";

export type Card = Schemas["ModelCard"];
const size = 50;
const slow = 30_000;
const key = (...rest: unknown[]): QueryKey => ["models", ...rest];
const at = (id: string, version: number) => ({ path: { model_id: id, version } });

export function useModels(q: string | undefined, project: string | undefined) {
  return usePages<Model, number>(
    key("list", q, project),
    size,
    0,
    async (limit, offset, signal) =>
      byOffset(
        await call(api.GET("/api/models", { params: { query: { limit, offset, q, project } }, signal })),
        size,
        offset,
      ),
    { refetchInterval: slow },
  );
}

export function useTaggedModel(id: string) {
  return useQuery<Tagged<Model>>({
    queryKey: key(id, "tagged"),
    queryFn: ({ signal }) =>
      tagged<Model>(api.GET("/api/models/{model_id}", { params: { path: { model_id: id } }, signal })),
    refetchInterval: slow,
  });
}

export function useVersion(id: string, version: number | null) {
  return useQuery<Tagged<ModelVersion>>({
    queryKey: key(id, "version", version),
    enabled: version !== null,
    queryFn: ({ signal }) =>
      tagged<ModelVersion>(
        api.GET("/api/models/{model_id}/versions/{version}", { params: at(id, version ?? 0), signal }),
      ),
    refetchInterval: slow,
  });
}

export function useCard(id: string, version: number, exists: boolean) {
  return useQuery<Tagged<Card>>({
    queryKey: key(id, "card", version),
    enabled: exists,
    queryFn: ({ signal }) =>
      tagged<Card>(api.GET("/api/models/{model_id}/versions/{version}/card", { params: at(id, version), signal })),
  });
}

export function useFiles(id: string, version: number) {
  return useQuery({
    queryKey: key(id, "files", version),
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/models/{model_id}/versions/{version}/files", {
          params: { ...at(id, version), query: { limit: 500 } },
          signal,
        }),
      ),
    staleTime: 60_000,
  });
}

export function useHistory(id: string) {
  return usePages(
    key(id, "history"),
    size,
    0,
    async (limit, offset, signal) =>
      byOffset(
        await call(
          api.GET("/api/models/{model_id}/history", {
            params: { path: { model_id: id }, query: { limit, offset } },
            signal,
          }),
        ),
        size,
        offset,
      ),
    { refetchInterval: slow },
  );
}

export function useModelsChanged(): () => Promise<void> {
  const queries = useQueryClient();
  return useCallback(() => queries.invalidateQueries({ queryKey: ["models"] }), [queries]);
}

export type Act = "promote" | "archive" | "unarchive";

export function change(act: Act, id: string, version: number, note: string, etag: string | null) {
  const params = { ...at(id, version), header: ifMatch(etag) };
  switch (act) {
    case "promote":
      return call(api.POST("/api/models/{model_id}/versions/{version}/promote", { params, body: { note } }));
    case "archive":
      return call(api.POST("/api/models/{model_id}/versions/{version}/archive", { params, body: { note } }));
    case "unarchive":
      return call(api.POST("/api/models/{model_id}/versions/{version}/unarchive", { params }));
  }
}

export function putCard(id: string, version: number, content: string, etag: string | null) {
  return call(
    api.PUT("/api/models/{model_id}/versions/{version}/card", {
      params: { ...at(id, version), header: ifMatch(etag) },
      body: { content },
    }),
  );
}
