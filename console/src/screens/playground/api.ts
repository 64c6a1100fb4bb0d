import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback } from "react";
import { api, call, type Schemas } from "@/api/client";
import { byOffset, usePages } from "@/api/pages";

export type Session = Schemas["PlaygroundSession"];
export type Target = Schemas["PlaygroundTarget"];

const size = 25;
const over = new Set(["expired", "failed", "stopped"]);

// isOver reports whether a session has ended. It can still be read.
export function isOver(session: Pick<Session, "state" | "ended_at">): boolean {
  return session.ended_at !== null || over.has(session.state);
}

export function useSessions() {
  return usePages<Session, number>(
    ["playground", "list"],
    size,
    0,
    async (limit, offset, signal) =>
      byOffset(
        await call(api.GET("/api/playground/sessions", { params: { query: { limit, offset } }, signal })),
        size,
        offset,
      ),
    { refetchInterval: 10_000 },
  );
}

export function useSession(id: string) {
  return useQuery<Session>({
    queryKey: ["playground", id],
    queryFn: ({ signal }) =>
      call(api.GET("/api/playground/sessions/{playground_id}", { params: { path: { playground_id: id } }, signal })),
    refetchInterval: ({ state: { data } }) => (data && isOver(data) ? false : data?.state === "ready" ? 10_000 : 1500),
  });
}

export function useSessionsChanged(): () => Promise<void> {
  const queries = useQueryClient();
  return useCallback(() => queries.invalidateQueries({ queryKey: ["playground"] }), [queries]);
}

export const extend = (id: string, seconds: number) =>
  call(
    api.POST("/api/playground/sessions/{playground_id}/extend", {
      params: { path: { playground_id: id } },
      body: { seconds },
    }),
  );

export const end = (id: string) =>
  call(api.DELETE("/api/playground/sessions/{playground_id}", { params: { path: { playground_id: id } } }));

// The URL of a target's OpenAI-style routes.
export function targetUrl(session: string, target: number): string {
  return `/api/playground/sessions/${encodeURIComponent(session)}/targets/${target}/v1`;
}
