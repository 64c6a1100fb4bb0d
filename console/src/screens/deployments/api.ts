import { type QueryKey, useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback } from "react";
import { all } from "@/api/all";
import { api, call } from "@/api/client";
import { byOffset, usePages } from "@/api/pages";
import { ifMatch, type Tagged, tagged } from "@/api/tagged";
import { type Call, type Deployment, type DeploymentEvent, isMoving, type Revision } from "./deployment";
import { newestFirst } from "./events";
import type { DeploymentSearch } from "./search";

const size = 50;
const quick = 2000;
const calm = 5000;
export const key = (id: string, ...rest: unknown[]): QueryKey => ["deployments", id, ...rest];
const path = (id: string) => ({ path: { deployment_id: id } });

export function useDeployments(project: string | undefined) {
  return usePages<Deployment, number>(
    ["deployments", "list", project],
    size,
    0,
    async (limit, offset, signal) =>
      byOffset(
        await call(api.GET("/api/model-deployments", { params: { query: { limit, offset, project } }, signal })),
        size,
        offset,
      ),
    { refetchInterval: calm },
  );
}

export function useDeployment(id: string) {
  return useQuery<Tagged<Deployment>>({
    queryKey: key(id),
    queryFn: ({ signal }) =>
      tagged<Deployment>(api.GET("/api/model-deployments/{deployment_id}", { params: path(id), signal })),
    refetchInterval: (query) => (query.state.data?.value.pending_revision ? quick : calm),
  });
}

export function useRevisions(id: string) {
  return useQuery<Revision[]>({
    queryKey: key(id, "revisions"),
    queryFn: ({ signal }) =>
      all((limit, offset) =>
        call(
          api.GET("/api/model-deployments/{deployment_id}/revisions", {
            params: { ...path(id), query: { limit, offset } },
            signal,
          }),
        ),
      ).then((rows) => rows.toSorted((a, b) => b.number - a.number)),
    refetchInterval: (query) => (query.state.data?.some(isMoving) ? quick : calm),
  });
}

export function useTokens(id: string) {
  return useQuery({
    queryKey: key(id, "tokens"),
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/model-deployments/{deployment_id}/tokens", {
          params: { ...path(id), query: { limit: 200 } },
          signal,
        }),
      ),
    refetchInterval: 15_000,
  });
}

// useEvents reads the events, newest first. After the first time only those that are new are read.
export function useEvents(id: string) {
  const queries = useQueryClient();
  return useQuery({
    queryKey: key(id, "events"),
    queryFn: ({ signal }) =>
      newestFirst(queries.getQueryData<DeploymentEvent[]>(key(id, "events")) ?? [], (limit, offset) =>
        call(
          api.GET("/api/model-deployments/{deployment_id}/events", {
            params: { ...path(id), query: { limit, offset } },
            signal,
          }),
        ),
      ),
    refetchInterval: calm,
    // Old events are deleted some day, which moves the others: a page that opens reads all of them.
    gcTime: 0,
  });
}

type MetricsOptions = { token?: string; revision?: number; every?: number };

// useMetrics reads the calls of the last `seconds` in steps.
export function useMetrics(id: string, seconds: number, step: number, options: MetricsOptions = {}) {
  const { token, revision, every = 15_000 } = options;
  return useQuery({
    queryKey: key(id, "metrics", seconds, step, token, revision),
    queryFn: ({ signal }) => {
      const from = new Date(Date.now() - seconds * 1000).toISOString();
      return call(
        api.GET("/api/model-deployments/{deployment_id}/metrics", {
          params: { ...path(id), query: { from, step_s: step, token, revision } },
          signal,
        }),
      );
    },
    refetchInterval: every,
    staleTime: every,
  });
}

export function useTraffic(id: string, search: DeploymentSearch) {
  const { outcome, status, token, served, slow } = search;
  return usePages<Call, number>(
    key(id, "traffic", outcome, status, token, served, slow),
    size,
    0,
    async (limit, offset, signal) =>
      byOffset(
        await call(
          api.GET("/api/model-deployments/{deployment_id}/traffic", {
            params: {
              ...path(id),
              query: { limit, offset, outcome, status, token, revision: served, min_latency_ms: slow },
            },
            signal,
          }),
        ),
        size,
        offset,
      ),
    { refetchInterval: calm },
  );
}

// useChanged returns a function that reads everything about the deployments again.
export function useChanged(): () => Promise<void> {
  const queries = useQueryClient();
  return useCallback(() => queries.invalidateQueries({ queryKey: ["deployments"] }), [queries]);
}

export const promote = (id: string, number: number, etag: string | null) =>
  call(
    api.POST("/api/model-deployments/{deployment_id}/revisions/{number}/promote", {
      params: { path: { deployment_id: id, number }, header: ifMatch(etag) },
    }),
  );

export const rollback = (id: string, body: { to_revision?: number; start?: boolean }, etag: string | null) =>
  call(
    api.POST("/api/model-deployments/{deployment_id}/rollback", {
      params: { ...path(id), header: ifMatch(etag) },
      body,
    }),
  );

export const startRevision = (id: string, number: number) =>
  call(
    api.POST("/api/model-deployments/{deployment_id}/revisions/{number}/start", {
      params: { path: { deployment_id: id, number } },
    }),
  );

export const stopRevision = (id: string, number: number) =>
  call(
    api.POST("/api/model-deployments/{deployment_id}/revisions/{number}/stop", {
      params: { path: { deployment_id: id, number } },
    }),
  );

export const suspend = (id: string, mode: "drain" | "cut", etag: string | null) =>
  call(
    api.POST("/api/model-deployments/{deployment_id}/suspend", {
      params: { ...path(id), header: ifMatch(etag) },
      body: { mode },
    }),
  );

export const resume = (id: string, etag: string | null) =>
  call(api.POST("/api/model-deployments/{deployment_id}/resume", { params: { ...path(id), header: ifMatch(etag) } }));

export const describe = (id: string, description: string, etag: string | null) =>
  call(
    api.PATCH("/api/model-deployments/{deployment_id}", {
      params: { ...path(id), header: ifMatch(etag) },
      body: { description },
    }),
  );

export const remove = (id: string, etag: string | null) =>
  call(api.DELETE("/api/model-deployments/{deployment_id}", { params: { ...path(id), header: ifMatch(etag) } }));
