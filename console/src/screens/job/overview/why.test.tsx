import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { render, screen } from "@testing-library/react";
import { beforeAll, expect, it, vi } from "vitest";
import { startTexts, texts } from "@/i18n/i18n";
import type { Job } from "@/screens/jobs/job";
import { Progress } from "@/screens/jobs/Progress";
import { Attempts } from "./Attempts";
import { Why } from "./Why";

beforeAll(async () => {
  await startTexts();
  await Promise.all([texts("job"), texts("jobs")]);
});

const waits = (reason: string, reason_detail: string) =>
  ({
    id: "job_1",
    state: "scheduled",
    end_reason: null,
    warnings: [],
    version: 1,
    queue: { position: 0, reason, reason_detail, since: "2026-11-24T12:00:00.000000+00:00" },
  }) as unknown as Job;

it("shows Slurm's own reason, and no place in the line", () => {
  render(<Why job={waits("QOSMaxGRESPerUser", "SLURM EXPECTS NOON")} />);
  expect(screen.getByRole("heading").textContent).toBe("Slurm holds this job");
  expect(screen.getByText("QOSMaxGRESPerUser")).toBeDefined();
  expect(screen.getByText("SLURM EXPECTS NOON")).toBeDefined();
  expect(screen.queryByText("Position")).toBeNull();
});

it("shows the place in the line of a job that Signalbox holds", () => {
  render(<Why job={waits("pool_capacity", "NO ROOM")} />);
  expect(screen.getByText("no room in the pool")).toBeDefined();
  expect(screen.getByText("Position")).toBeDefined();
});

it("names Slurm in the list of jobs", () => {
  render(<Progress job={waits("Resources", "SLURM EXPECTS NOON")} />);
  expect(screen.getByText("Slurm: Resources").title).toBe("SLURM EXPECTS NOON");
});

it.each([
  [{ batch_id: "4711", batch_nodes: ["N1", "N2"] }, "4711 on N1, N2"],
  [{ batch_id: "4711", batch_nodes: [] }, "4711"],
  [{ batch_id: null, batch_nodes: [] }, null],
])("shows the id of an attempt in Slurm with its nodes: %o", async (batch, want) => {
  const attempt = { number: 1, state: "running", node_id: null, end_reason: null, message: null, exit_code: null };
  vi.stubGlobal("fetch", async () => Response.json([{ ...attempt, ...batch }]));
  render(
    <QueryClientProvider client={new QueryClient()}>
      <Attempts job={waits("", "")} />
    </QueryClientProvider>,
  );
  await screen.findByRole("table");
  expect(screen.queryByRole("columnheader", { name: "Slurm job" }) !== null).toBe(want !== null);
  if (want) expect(screen.getAllByRole("cell")[2]?.textContent).toBe(want);
});
