import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback } from "react";
import { api, call, type Schemas } from "@/api/client";
import { toApiError } from "@/api/error";

export type User = Schemas["User"];
export type Quota = Schemas["JobsQuota"];
export type AuditRow = Schemas["AuditRow"];
export type Setting = Schemas["Setting"];

export const roles = ["operator", "admin"] as const;
export type Role = (typeof roles)[number];

export function useUser(id: string) {
  return useQuery({
    queryKey: ["admin", "users", id],
    queryFn: ({ signal }) => call(api.GET("/api/admin/users/{user_id}", { params: { path: { user_id: id } }, signal })),
  });
}

const page = 500;
const mostQuotas = 5000;

// useQuotas reads the quotas of all users, by username.
export function useQuotas() {
  return useQuery({
    queryKey: ["admin", "quotas", "users"],
    queryFn: async ({ signal }) => {
      const found = new Map<string, Quota>();
      for (let offset = 0; offset < mostQuotas; offset += page) {
        const params = { path: { subject_kind: "users" as const }, query: { limit: page, offset } };
        const rows = await call(api.GET("/api/quota/{subject_kind}", { params, signal }));
        for (const row of rows) found.set(row.subject, row);
        if (rows.length < page) break;
      }
      return found;
    },
    refetchInterval: 30_000,
  });
}

export function useOwned(id: string) {
  return useQuery({
    queryKey: ["admin", "users", id, "owned"],
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/admin/users/{user_id}/owned", {
          params: { path: { user_id: id }, query: { limit: page } },
          signal,
        }),
      ),
  });
}

// useAdminChanged returns a function that reads everything of the admin screens again.
export function useAdminChanged(): () => Promise<void> {
  const queries = useQueryClient();
  return useCallback(() => queries.invalidateQueries({ queryKey: ["admin"] }), [queries]);
}

// findUser returns the user with the username.
export async function findUser(username: string): Promise<User | undefined> {
  const rows = await call(api.GET("/api/admin/users", { params: { query: { q: username, limit: page } } }));
  const wanted = username.toLowerCase();
  return rows.find((user) => user.username.toLowerCase() === wanted);
}

// sentence is the server's own sentence about a conflict, which names what is in the way.
export function sentence(error: unknown): string {
  return toApiError(error).detail;
}
