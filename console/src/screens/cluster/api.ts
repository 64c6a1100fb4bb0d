import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback } from "react";
import { api, call, type Schemas } from "@/api/client";

export type Node = Schemas["Node"];
export type QueueEntry = Schemas["QueueEntry"];
export type Pool = Schemas["PoolSummary"];
export type Job = Schemas["Job"];

const every = 5_000;
const page = 500;
// The map shows at most this many nodes.
export const mostNodes = 2000;

export function useCluster() {
  return useQuery({
    queryKey: ["cluster"],
    queryFn: ({ signal }) => call(api.GET("/api/cluster", { signal })),
    refetchInterval: every,
  });
}

async function allNodes(signal: AbortSignal): Promise<Node[]> {
  const nodes: Node[] = [];
  for (let offset = 0; offset < mostNodes; offset += page) {
    const rows = await call(api.GET("/api/cluster/nodes", { params: { query: { limit: page, offset } }, signal }));
    nodes.push(...rows);
    if (rows.length < page) break;
  }
  return nodes;
}

export function useNodes() {
  return useQuery({
    queryKey: ["cluster", "nodes"],
    queryFn: ({ signal }) => allNodes(signal),
    refetchInterval: every,
  });
}

export function useNode(id: string) {
  return useQuery({
    queryKey: ["cluster", "nodes", id],
    queryFn: ({ signal }) =>
      call(api.GET("/api/cluster/nodes/{node_id}", { params: { path: { node_id: id } }, signal })),
    refetchInterval: every,
  });
}

// The states of jobs that can hold GPUs.
const holding = ["running", "starting", "scheduled", "pausing", "stopping"] as const;
export const mostHolders = 100;

// useHolders lists the jobs that hold GPUs, of those that the user may see.
export function useHolders() {
  return useQuery({
    queryKey: ["cluster", "holders"],
    queryFn: async ({ signal }) => {
      const lists = await Promise.all(
        holding.map((state) =>
          call(api.GET("/api/jobs", { params: { query: { state, limit: mostHolders } }, signal })),
        ),
      );
      return lists.flat();
    },
    refetchInterval: 10_000,
  });
}

// useClusterChanged returns a function that reads everything about the cluster again.
export function useClusterChanged(): () => Promise<void> {
  const queries = useQueryClient();
  return useCallback(() => queries.invalidateQueries({ queryKey: ["cluster"] }), [queries]);
}
