import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback } from "react";
import { api, call, type Schemas } from "@/api/client";

export type Fleet = Schemas["Fleet"];
export type JoinToken = Schemas["JoinToken"];

export const every = 10_000;

export function useFleet(id: string) {
  return useQuery({
    queryKey: ["fleets", id],
    queryFn: ({ signal }) => call(api.GET("/api/fleets/{fleet_id}", { params: { path: { fleet_id: id } }, signal })),
    refetchInterval: every,
  });
}

// useFleetsChanged returns a function that reads everything about fleets again.
export function useFleetsChanged(): () => Promise<void> {
  const queries = useQueryClient();
  return useCallback(async () => {
    await Promise.all([
      queries.invalidateQueries({ queryKey: ["fleets"] }),
      queries.invalidateQueries({ queryKey: ["cluster"] }),
    ]);
  }, [queries]);
}

// poolsOf reads the names of pools that a user has typed, separated by commas or spaces.
export function poolsOf(text: string): string[] {
  return [...new Set(text.split(/[\s,]+/).filter(Boolean))];
}

// versionsOf counts the nodes by the version of their agent, the most frequent first.
export function versionsOf(nodes: readonly { version: string }[]): [version: string, count: number][] {
  const counts = new Map<string, number>();
  for (const { version } of nodes) counts.set(version, (counts.get(version) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0]));
}

// joinCommand returns a command that can be run as it is: the server's command with the token on its standard input.
export function joinCommand(command: string, token: string): string {
  return `${command} <<'TOKEN'\n${token}\nTOKEN`;
}
