import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { api, call, type Schemas } from "@/api/client";
import type { Lock, Recipe } from "./start";

export type Spec = Schemas["JobSpec"];
export type Report = Schemas["PreflightReport"];
export type Verdict = Schemas["GateVerdict"];

export const dialect = "service/v1";
const most = 500;
const pause = 500;

const pathOf = (name: string) => {
  const [namespace = "", short = ""] = name.split("/");
  return { namespace, name: short };
};

export function useRecipes() {
  return useQuery({
    queryKey: ["recipes"],
    queryFn: ({ signal }) => call(api.GET("/api/recipes", { params: { query: { limit: most } }, signal })),
    staleTime: 60_000,
  });
}

export type Locked = { recipe: Recipe; lock: Lock };

// readLocked reads a version of a recipe, the newest usable one if none is named, with its lock.
async function readLocked(name: string, version: string | undefined, signal: AbortSignal): Promise<Locked> {
  const path = pathOf(name);
  const recipe = await call(
    version
      ? api.GET("/api/recipes/{namespace}/{name}/versions/{version}", {
          params: { path: { ...path, version } },
          signal,
        })
      : api.GET("/api/recipes/{namespace}/{name}", { params: { path }, signal }),
  );
  const lock = await call(
    api.GET("/api/recipes/{namespace}/{name}/versions/{version}/lock", {
      params: { path: { ...path, version: recipe.version } },
      signal,
    }),
  );
  return { recipe, lock };
}

export function useLocked(name: string, version?: string) {
  return useQuery({
    queryKey: ["recipes", name, version ?? "newest"],
    queryFn: ({ signal }) => readLocked(name, version, signal),
    staleTime: 60_000,
  });
}

export function usePools() {
  return useQuery({
    queryKey: ["cluster"],
    queryFn: ({ signal }) => call(api.GET("/api/cluster", { signal })),
    staleTime: 15_000,
  });
}

export function useProfiles() {
  return useQuery({
    queryKey: ["hardware"],
    queryFn: ({ signal }) => call(api.GET("/api/hardware", { signal })),
    staleTime: 60_000,
  });
}

export function useQuota(enabled: boolean) {
  return useQuery({
    queryKey: ["quota", "own"],
    enabled,
    queryFn: ({ signal }) => call(api.GET("/api/quota", { signal })),
  });
}

// usePreflight checks a spec against all gates a moment after its last change. It stores nothing. null is not checked.
export function usePreflight(spec: Record<string, unknown> | null) {
  const body = spec === null ? null : JSON.stringify({ api: dialect, spec });
  const settled = useSettled(body);
  const query = useQuery<Report>({
    queryKey: ["submit", "preflight", settled],
    enabled: settled !== null,
    queryFn: ({ signal }) =>
      call(api.POST("/api/submit/preflight", { body: JSON.parse(settled ?? "null") as never, signal })),
    placeholderData: keepPreviousData,
    staleTime: 5_000,
    gcTime: 0,
    // What refuses a job may change without the spec: a pool gets nodes, a quota is raised.
    refetchInterval: 15_000,
  });
  return { ...query, current: settled === body && !query.isPlaceholderData && query.data !== undefined };
}

// useSettled returns a value when it has not changed for a moment.
function useSettled<T>(value: T): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), pause);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}

export const submitJob = (spec: Record<string, unknown>, key: string) =>
  call(
    api.POST("/api/jobs", {
      params: { header: { "Idempotency-Key": key } },
      body: { api: dialect, spec: spec as Spec },
    }),
  );
