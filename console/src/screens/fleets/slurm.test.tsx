import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { fireEvent, render, screen, within } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { queries } from "@/api/query";
import { startTexts } from "@/i18n/i18n";
import { respond, urlOf } from "@/test/server";
import type { Fleet } from "./api";
import { heldIn, type QueueEntry, slurmRows, troubled } from "./slurm";

const gpu = { partition: "GPU-P", account: "LAB", qos: "", user: "", folder: "/S" };
const at = "2026-11-24T12:00:00.000000+00:00";
const tested = (pool: string, isolation: string, problem: string | null, slurm = gpu) => ({
  pool,
  slurm,
  isolation,
  problem,
  closes_network: true,
  tested_at: at,
});
const names = ["GOOD", "BAD", "BARE", "OPEN", "LATE", "NONE"];
const fleet: Fleet = {
  id: "flt_01kb4q6z8w0000000000000000",
  name: "HPC",
  kind: "slurm",
  state: "active",
  pools: names,
  nodes: 1,
  gpus_total: 16,
  gpus_free: 10,
  gpus_unhealthy: 0,
  created_at: at,
  last_seen_at: at,
  slurm: {
    version: "22.05.8",
    problem: null,
    partitions: [
      {
        name: "GPU-P",
        state: "up",
        nodes: 3,
        nodes_idle: 1,
        nodes_down: 2,
        gpus_total: 16,
        gpus_used: 6,
        cpus_per_node: 64,
        memory_bytes_per_node: 2 ** 30,
        gpus_per_node: 8,
        jobs_waiting: 7,
        max_time_s: 0,
      },
    ],
    pools: [
      tested("GOOD", "own_user", null),
      tested("BAD", "", "INVALID ACCOUNT"),
      tested("BARE", "none", "NO NAMESPACES"),
      tested("OPEN", "none", "NO NAMESPACES"),
      tested("LATE", "own_user", null, { ...gpu, partition: "OTHER" }),
    ],
  },
};
const pools = [...names, "HOSTS"].map((pool) => ({
  pool,
  isolation: pool === "OPEN" ? "none" : "required",
  slurm: pool === "NONE" || pool === "HOSTS" ? null : gpu,
}));
const waiting = (job: string | null, reason: string, detail: string | null, pool = "GOOD"): QueueEntry => ({
  position: 0,
  job_id: job,
  name: job,
  pools: [pool],
  nodes: 2,
  gpus: 8,
  priority: 50,
  reason,
  reason_detail: detail,
  since: at,
});
const queue = [
  waiting("BIG", "Resources", "SLURM EXPECTS NOON"),
  waiting(null, "QOSMaxGRESPerUser", null),
  waiting("SMALL", "pool_capacity", "NO ROOM"),
  waiting("ELSEWHERE", "Priority", null, "HOSTS"),
];

test("each pool of the fleet has the result of the test of its settings", () => {
  expect(slurmRows(fleet, pools).map((row) => [row.pool, row.result, row.problem])).toEqual([
    ["GOOD", "passed", null],
    ["BAD", "failed", "INVALID ACCOUNT"],
    ["BARE", "exposed", "NO NAMESPACES"],
    ["OPEN", "passed", "NO NAMESPACES"],
    ["LATE", "untested", null],
    ["NONE", "unset", null],
  ]);
  expect(slurmRows({ ...fleet, slurm: null }, pools)[0]?.result).toBe("untested");
});

test("a fleet is in trouble if Slurm cannot be reached, or if a test has failed", () => {
  const report = fleet.slurm as NonNullable<Fleet["slurm"]>;
  const good = { ...report, pools: report.pools.filter((p) => p.pool !== "BAD") };
  expect(troubled(fleet)).toBe(true);
  expect(troubled({ ...fleet, slurm: good })).toBe(false);
  expect(troubled({ ...fleet, slurm: { ...good, problem: "no controller" } })).toBe(true);
  expect(troubled({ ...fleet, slurm: null })).toBe(false);
});

test("only jobs of the pools with a reason of Slurm are held", () => {
  expect(heldIn(queue, names).map((job) => job.job_id)).toEqual(["BIG", null]);
});

const patience = { timeout: 60_000 };

test(
  "the page shows the cluster, and an admin changes one setting of a pool",
  async () => {
    const sent: unknown[] = [];
    vi.stubGlobal("scrollTo", () => undefined);
    vi.stubGlobal("fetch", async (input: Request) => {
      const { pathname } = urlOf(input);
      if (input.method === "PATCH") sent.push([pathname, await input.json()]);
      if (pathname === `/api/fleets/${fleet.id}`) return Response.json(fleet);
      if (pathname === "/api/cluster/queue") return Response.json(queue);
      if (pathname === "/api/cluster/nodes") return Response.json([]);
      if (pathname === "/api/cluster") return Response.json({ pools, nodes_by_state: {} });
      if (pathname.startsWith("/api/cluster/pools/")) return Response.json(pools[0]);
      return respond(input);
    });
    await startTexts();
    const { router } = await import("@/app/router");
    render(
      <QueryClientProvider client={queries()}>
        <RouterProvider router={router} />
      </QueryClientProvider>,
    );
    await router.navigate({ href: `/fleets/${fleet.id}` });
    const partitions = await screen.findByRole("region", { name: "Partitions" }, patience);
    expect(within(partitions).getAllByRole("row")[1]?.textContent).toContain(
      "GPU-Pup3126 of 167no limit8 GPUs, 64 CPUs",
    );
    const table = await screen.findByRole("region", { name: "Pools" }, patience);
    expect(within(table).getByText("INVALID ACCOUNT")).toBeDefined();
    expect(within(table).getByText(/signalbox cluster pool BARE --isolation none/)).toBeDefined();
    const held = await screen.findByRole("region", { name: "Jobs that Slurm holds" }, patience);
    expect(within(held).getAllByRole("row")).toHaveLength(3);
    expect(within(held).getByRole("link", { name: "BIG" }).getAttribute("href")).toBe("/jobs/BIG");
    expect(within(held).getByText("SLURM EXPECTS NOON")).toBeDefined();
    expect(within(held).getByText("QOSMaxGRESPerUser")).toBeDefined();

    fireEvent.click(within(table).getByRole("button", { name: "Settings of the pool GOOD" }));
    await screen.findByRole("dialog", { name: "How jobs of GOOD run on Slurm" }, patience);
    fireEvent.change(screen.getByLabelText("QOS"), { target: { value: " LONG " } });
    fireEvent.click(screen.getByRole("button", { name: "Save" }));
    await vi.waitFor(() => expect(screen.queryByRole("dialog")).toBeNull(), patience);
    expect(sent).toEqual([["/api/cluster/pools/GOOD", { slurm: { ...gpu, qos: "LONG" } }]]);

    await router.navigate({ href: "/cluster?view=queue" });
    const waits = await screen.findByRole("grid", { name: "Queue" }, patience);
    expect(await within(waits).findByText(/Slurm: Resources/, {}, patience)).toBeDefined();
    expect(within(waits).getByText("SLURM EXPECTS NOON")).toBeDefined();
    expect(within(waits).getByText("The pool has no room")).toBeDefined();
  },
  2 * patience.timeout,
);
