import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { api, call, type Schemas } from "@/api/client";
import { jumpTo } from "@/app/nav";

export type Result = Schemas["SearchResult"];

// The kinds of objects, in the order in which the page shows them.
export const kinds = [
  "project",
  "job",
  "run",
  "dataset",
  "model",
  "deployment",
  "environment",
  "rubric",
  "team",
  "node",
  "fleet",
  "user",
] as const;
export type Kind = (typeof kinds)[number];

export function isKind(name: string): name is Kind {
  return kinds.some((k) => k === name);
}

export type Asked = { kinds?: readonly string[]; project?: string; limit: number };

// useFound searches for a text of at least two characters. While the text changes, the last results stay.
export function useFound(q: string, { kinds: only, project, limit }: Asked) {
  const words = q.trim();
  return useQuery({
    queryKey: ["search", words, only, project, limit],
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/search", {
          params: { query: { q: words, kinds: only?.filter(isKind), project, limit } },
          signal,
        }),
      ),
    enabled: [...words].length >= 2,
    placeholderData: keepPreviousData,
    staleTime: 10_000,
  });
}

// useSettled returns the text as it was when it had not changed for the pause.
export function useSettled(text: string, pause = 150): string {
  const [settled, settle] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => settle(text), pause);
    return () => clearTimeout(timer);
  }, [text, pause]);
  return settled;
}

// pathOf returns the address of the screen of a result, or null.
export function pathOf(result: Pick<Result, "kind" | "id" | "project">): string | null {
  if (result.kind === "project" && result.project) return `/projects/${encodeURIComponent(result.project)}`;
  return jumpTo(result.id);
}

// byKind groups results by kind. The groups have the order of their best results.
export function byKind(results: readonly Result[]): { kind: string; results: Result[] }[] {
  const groups = new Map<string, Result[]>();
  for (const result of results) groups.set(result.kind, [...(groups.get(result.kind) ?? []), result]);
  return [...groups].map(([kind, found]) => ({ kind, results: found }));
}
