import { useQuery } from "@tanstack/react-query";
import { all } from "@/api/all";
import { api, call, type Schemas } from "@/api/client";
import { byOffset, usePages } from "@/api/pages";

export type Environment = Schemas["RegistryEnvironment"];
export type Version = Schemas["EnvironmentVersion"];
const size = 50;
const slow = 30_000;

export function useEnvironments(q: string | undefined, project: string | undefined) {
  return usePages<Environment, number>(
    ["environments", "list", q, project],
    size,
    0,
    async (limit, offset, signal) =>
      byOffset(
        await call(api.GET("/api/environments", { params: { query: { limit, offset, q, project } }, signal })),
        size,
        offset,
      ),
    { refetchInterval: slow },
  );
}

export function useEnvironment(id: string) {
  return useQuery<Environment>({
    queryKey: ["environments", id],
    queryFn: ({ signal }) =>
      call(api.GET("/api/environments/{environment_id}", { params: { path: { environment_id: id } }, signal })),
    refetchInterval: slow,
  });
}

// useVersions reads the versions, newest first.
export function useVersions(id: string) {
  return useQuery<Version[]>({
    queryKey: ["environments", id, "versions"],
    queryFn: ({ signal }) =>
      all((limit, offset) =>
        call(
          api.GET("/api/environments/{environment_id}/versions", {
            params: { path: { environment_id: id }, query: { limit, offset } },
            signal,
          }),
        ),
      ).then((rows) => rows.toSorted((a, b) => (a.created_at < b.created_at ? 1 : -1))),
    refetchInterval: slow,
  });
}
