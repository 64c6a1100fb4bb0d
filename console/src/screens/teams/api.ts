import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback } from "react";
import { api, call, type Schemas } from "@/api/client";
import { session } from "@/auth/browser";

export type Team = Schemas["Team"];
export type Member = Team["members"][number];
export type Role = Member["role"];
export const roles: readonly Role[] = ["member", "lead"];

const every = 30_000;

export function useTeam(id: string) {
  return useQuery({
    queryKey: ["teams", id],
    queryFn: ({ signal }) => call(api.GET("/api/teams/{team_id}", { params: { path: { team_id: id } }, signal })),
    refetchInterval: every,
  });
}

const page = 500;

// useTeamQuota reads the quota of a team, which only admins may list.
export function useTeamQuota(key: string | undefined) {
  return useQuery({
    queryKey: ["teams", "quota", key],
    enabled: key !== undefined && session.user?.role === "admin",
    queryFn: async ({ signal }) => {
      const params = { path: { subject_kind: "teams" as const }, query: { limit: page } };
      const rows = await call(api.GET("/api/quota/{subject_kind}", { params, signal }));
      return rows.find((row) => row.subject === key) ?? null;
    },
  });
}

// useTeamsChanged returns a function that reads everything about teams again.
export function useTeamsChanged(): () => Promise<void> {
  const queries = useQueryClient();
  return useCallback(() => queries.invalidateQueries({ queryKey: ["teams"] }), [queries]);
}

type Who = { username: string; role: string } | null;

// mayManage reports whether the user may change the team and its members. The server decides; this only hides what would
// fail.
export function mayManage(team: Team, user: Who): boolean {
  return user?.role === "admin" || team.members.some((m) => m.username === user?.username && m.role === "lead");
}

// lastLead reports whether the team would have no lead without the member.
export function lastLead(team: Team, username: string): boolean {
  const leads = team.members.filter((m) => m.role === "lead");
  return leads.length === 1 && leads[0]?.username === username;
}
