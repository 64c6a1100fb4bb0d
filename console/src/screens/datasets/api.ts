import { useQuery } from "@tanstack/react-query";
import { all } from "@/api/all";
import { api, call, type Schemas } from "@/api/client";
import { byOffset, usePages } from "@/api/pages";

export type Dataset = Schemas["Dataset"];
export type DatasetVersion = Schemas["DatasetVersion"];
export type File = Schemas["ManifestFile"];
const size = 50;
const slow = 30_000;

export function useDatasets(q: string | undefined, project: string | undefined) {
  return usePages<Dataset, number>(
    ["datasets", "list", q, project],
    size,
    0,
    async (limit, offset, signal) =>
      byOffset(
        await call(api.GET("/api/datasets", { params: { query: { limit, offset, q, project } }, signal })),
        size,
        offset,
      ),
    { refetchInterval: slow },
  );
}

export function useDataset(id: string) {
  return useQuery<Dataset>({
    queryKey: ["datasets", id],
    queryFn: ({ signal }) =>
      call(api.GET("/api/datasets/{dataset_id}", { params: { path: { dataset_id: id } }, signal })),
    refetchInterval: slow,
  });
}

export function useVersions(id: string) {
  return useQuery<DatasetVersion[]>({
    queryKey: ["datasets", id, "versions"],
    queryFn: ({ signal }) =>
      all((limit, offset) =>
        call(
          api.GET("/api/datasets/{dataset_id}/versions", {
            params: { path: { dataset_id: id }, query: { limit, offset } },
            signal,
          }),
        ),
      ).then((rows) => rows.toSorted((a, b) => (a.created_at < b.created_at ? 1 : -1))),
    refetchInterval: slow,
  });
}

export function useSchema(id: string, version: string) {
  return useQuery({
    queryKey: ["datasets", id, "schema", version],
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/datasets/{dataset_id}/versions/{version}/schema", {
          params: { path: { dataset_id: id, version } },
          signal,
        }),
      ),
    staleTime: 60_000,
  });
}

// usePreview reads the first rows. The records of a protected dataset are never requested.
export function usePreview(id: string, version: string, allowed: boolean) {
  return useQuery({
    queryKey: ["datasets", id, "preview", version],
    enabled: allowed,
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/datasets/{dataset_id}/versions/{version}/preview", {
          params: { path: { dataset_id: id, version }, query: { limit: 50 } },
          signal,
        }),
      ),
    staleTime: 60_000,
  });
}

export function useFiles(id: string, version: string, allowed: boolean) {
  return usePages<File, number>(
    ["datasets", id, "files", version],
    200,
    0,
    async (limit, offset, signal) =>
      byOffset(
        await call(
          api.GET("/api/datasets/{dataset_id}/versions/{version}/files", {
            params: { path: { dataset_id: id, version }, query: { limit, offset } },
            signal,
          }),
        ),
        200,
        offset,
      ),
    { enabled: allowed },
  );
}

// download returns a URL of a file that needs no other credential for 15 minutes.
export const download = (id: string, version: string, path: string) =>
  call(
    api.POST("/api/datasets/{dataset_id}/versions/{version}/download-url", {
      params: { path: { dataset_id: id, version } },
      body: { path },
    }),
  );
