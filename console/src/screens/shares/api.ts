import { useQuery } from "@tanstack/react-query";
import { call, type Schemas } from "@/api/client";
import { open } from "./public";

export type Share = Schemas["Share"];
export type Shared = Schemas["Shared"];
export type SharedSeries = Schemas["SharedSeries"];
export type SharedSample = Schemas["SharedSample"];

export const fields = ["metrics", "config", "samples"] as const;
export type Field = (typeof fields)[number];

const ended = ["succeeded", "failed", "stopped"];
const every = 10_000;

// live reports whether the content of a link still changes.
export function live(shared: Shared | undefined): boolean {
  return shared !== undefined && !shared.pinned && shared.runs.some((run) => !ended.includes(run.state));
}

export function useShared(token: string) {
  return useQuery({
    queryKey: ["share", token],
    queryFn: ({ signal }) => call(open.GET("/api/share/{token}", { params: { path: { token } }, signal })),
    refetchInterval: (query) => (live(query.state.data) ? every : false),
  });
}

const mostSeries = 50;

export type Line = { run: number; series: SharedSeries };

// useLines reads the metrics of all runs and puts those with the same key together.
export function useLines(token: string, shared: Shared) {
  return useQuery({
    queryKey: ["share", token, "metrics", shared.runs.length],
    queryFn: async ({ signal }) => {
      const lists = await Promise.all(
        shared.runs.map((_, run) =>
          call(
            open.GET("/api/share/{token}/metrics", {
              params: { path: { token }, query: { run, limit: mostSeries } },
              signal,
            }),
          ),
        ),
      );
      return group(lists);
    },
    refetchInterval: live(shared) ? every : false,
  });
}

export function group(lists: readonly SharedSeries[][]): [key: string, lines: Line[]][] {
  const found = new Map<string, Line[]>();
  lists.forEach((list, run) => {
    for (const series of list) found.set(series.key, [...(found.get(series.key) ?? []), { run, series }]);
  });
  return [...found].sort((a, b) => a[0].localeCompare(b[0]));
}

// stateOf returns whether a link of the user still opens.
export function stateOf(
  share: Pick<Share, "revoked_at" | "expires_at">,
  now: number,
): "active" | "revoked" | "expired" {
  if (share.revoked_at) return "revoked";
  return share.expires_at && Date.parse(share.expires_at) <= now ? "expired" : "active";
}

// targetsOf reads the ids of jobs or runs that a user has pasted.
export function targetsOf(text: string): string[] {
  return [...new Set(text.split(/[\s,]+/).filter(Boolean))];
}
