import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback } from "react";
import { api, call, type Schemas } from "@/api/client";
import { ApiError } from "@/api/error";
import { session } from "@/auth/browser";

export type Project = Schemas["Project"];
export type Member = Schemas["ProjectMember"];
export type Role = Member["role"];
export const roles: readonly Role[] = ["viewer", "editor", "owner"];

const pageSize = 500;
// More projects than this are not searched for a key.
const mostPages = 20;

// byKey finds a project by its key. The API reads a project by its id only, so this looks through the list.
async function byKey(key: string, signal: AbortSignal): Promise<Project> {
  for (let page = 0; page < mostPages; page++) {
    const query = { limit: pageSize, offset: page * pageSize };
    const rows = await call(api.GET("/api/projects", { params: { query }, signal }));
    const found = rows.find((project) => project.key === key);
    if (found) return found;
    if (rows.length < pageSize) break;
  }
  throw new ApiError(404, null, `no such project: ${key}`, [], null, 0);
}

export function useProject(key: string) {
  return useQuery({
    queryKey: ["projects", "key", key],
    queryFn: ({ signal }) => byKey(key, signal),
    refetchInterval: 30_000,
  });
}

const mostMembers = 500;

export function useMembers(id: string | undefined) {
  return useQuery({
    queryKey: ["projects", "members", id],
    enabled: id !== undefined,
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/projects/{project_id}/members", {
          params: { path: { project_id: id ?? "" }, query: { limit: mostMembers } },
          signal,
        }),
      ),
    refetchInterval: 30_000,
  });
}

// useProjectsChanged returns a function that reads everything about projects again.
export function useProjectsChanged(): () => Promise<void> {
  const queries = useQueryClient();
  return useCallback(() => queries.invalidateQueries({ queryKey: ["projects"] }), [queries]);
}

// mayManage reports whether the user may change the project and its members. The server decides; this only hides what would
// fail.
export function mayManage(members: readonly Member[] | undefined): boolean {
  const { user } = session;
  return user?.role === "admin" || (members ?? []).some((m) => m.username === user?.username && m.role === "owner");
}
