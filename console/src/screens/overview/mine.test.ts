import { expect, test } from "vitest";
import type { Job } from "../jobs/job";
import { attention } from "./mine";

const now = Date.parse("2026-11-24T12:00:00Z");
const job = (id: string, state: Job["state"], ended: string | null = null) =>
  ({ id, state, created_at: `2026-11-24T0${id.length}:00:00Z`, ended_at: ended }) as Job;
const ids = (jobs: Job[], most = 8) =>
  attention(jobs, now, most)
    .jobs.map((j) => j.id)
    .join(" ");

test("failed jobs of the last day are first, then paused ones, then those that run", () => {
  const jobs = [
    job("a", "running"),
    job("aa", "paused"),
    job("aaa", "failed", "2026-11-24T11:00:00Z"),
    job("aaaa", "failed", "2026-11-23T11:00:00Z"),
    job("aaaaa", "succeeded", "2026-11-24T11:00:00Z"),
    job("aaaaaa", "queued"),
  ];
  expect(ids(jobs)).toBe("aaa aa aaaaaa a");
});

test("many failures do not hide what runs", () => {
  const failed = Array.from({ length: 9 }, (_, at) => job(`f${at}`, "failed", "2026-11-24T11:00:00Z"));
  const running = [job("r1", "running"), job("r2", "running"), job("r3", "running")];
  const { jobs, more } = attention([...failed, ...running], now, 8);
  expect(jobs.filter((j) => j.state === "running")).toHaveLength(3);
  expect(jobs).toHaveLength(8);
  expect(more).toBe(4);
});
