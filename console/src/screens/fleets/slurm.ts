import { useQuery } from "@tanstack/react-query";
import { api, call, type Schemas } from "@/api/client";
import { heldBySlurm } from "@/screens/jobs/job";
import { every, type Fleet } from "./api";

export type SlurmPool = Schemas["SlurmPool"];
export type QueueEntry = Schemas["QueueEntry"];
type Pool = Pick<Schemas["PoolSummary"], "pool" | "isolation" | "slurm">;

// The results of the test of a pool. A pool whose work is not isolated, as an admin permits, has passed.
export type Result = "passed" | "failed" | "exposed" | "untested" | "unset";

export type SlurmRow = {
  pool: string;
  settings: SlurmPool | null;
  result: Result;
  isolation: string;
  problem: string | null;
  testedAt: string | null;
};

// slurmRows returns the pools of a fleet with the results of their tests. A test with former settings does not count.
export function slurmRows(fleet: Fleet, pools: readonly Pool[]): SlurmRow[] {
  return pools
    .filter((p) => fleet.pools.includes(p.pool))
    .map((p) => {
      const test = fleet.slurm?.pools.find((one) => one.pool === p.pool && same(one.slurm, p.slurm));
      const row = { pool: p.pool, settings: p.slurm, isolation: "", problem: null, testedAt: null };
      if (!p.slurm) return { ...row, result: "unset" };
      if (!test) return { ...row, result: "untested" };
      const open = test.isolation === "none";
      const failed = test.isolation === "" || (!open && test.problem !== null);
      const result = open && p.isolation !== "none" ? "exposed" : failed ? "failed" : "passed";
      return { ...row, result, isolation: test.isolation, problem: test.problem, testedAt: test.tested_at };
    });
}

const settings = ["partition", "account", "qos", "user", "folder"] as const;

function same(a: SlurmPool | null, b: SlurmPool | null): boolean {
  return a !== null && b !== null && settings.every((name) => a[name] === b[name]);
}

// troubled reports whether the agent of a fleet cannot reach Slurm, or the last test of a pool has failed.
export function troubled(fleet: Fleet): boolean {
  const report = fleet.slurm;
  if (!report) return false;
  return report.problem !== null || report.pools.some((p) => p.problem !== null && p.isolation !== "none");
}

// heldIn returns the jobs of the pools that Slurm holds.
export function heldIn(queue: readonly QueueEntry[], pools: readonly string[]): QueueEntry[] {
  return queue.filter((entry) => heldBySlurm(entry.reason) && entry.pools.some((pool) => pools.includes(pool)));
}

const page = 500;
// At most this many jobs of the queue are searched for those that Slurm holds.
export const mostQueued = 2000;

// useHeld lists the jobs of the pools that Slurm holds. more states that the queue has jobs that were not searched.
export function useHeld(pools: readonly string[]) {
  return useQuery({
    queryKey: ["cluster", "held", ...pools],
    queryFn: async ({ signal }) => {
      const queue: QueueEntry[] = [];
      for (let offset = 0; offset < mostQueued; offset += page) {
        const rows = await call(api.GET("/api/cluster/queue", { params: { query: { limit: page, offset } }, signal }));
        queue.push(...rows);
        if (rows.length < page) break;
      }
      return { jobs: heldIn(queue, pools), more: queue.length === mostQueued };
    },
    refetchInterval: every,
  });
}
