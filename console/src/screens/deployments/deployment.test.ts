import { expect, test } from "vitest";
import { cannotPromote, type Deployment, type Point, type Revision, rollbackTarget, total } from "./deployment";
import { deploymentSearch } from "./search";
import { absolute, languages, snippet } from "./snippets";

test("only a ready revision that is not promoted can be promoted", () => {
  const deployment = { promoted_revision: 2 };
  const revision = (number: number, state: string) => ({ number, state, ready: state === "ready" }) as Revision;
  expect(cannotPromote(revision(3, "ready"), deployment)).toBeNull();
  expect(cannotPromote(revision(2, "ready"), deployment)).toBe("promoted");
  expect(cannotPromote(revision(3, "probing"), deployment)).toBe("notReady");
  expect(cannotPromote(revision(3, "failed"), deployment)).toBe("failed");
  expect(cannotPromote(revision(1, "stopped"), deployment)).toBe("stopped");
});

test("a rollback returns to the revision that the server names", () => {
  const revisions = [{ id: "rev_3" }, { id: "rev_1" }] as Revision[];
  expect(rollbackTarget({ previous_revision_id: "rev_1" } as Deployment, revisions)?.id).toBe("rev_1");
  expect(rollbackTarget({ previous_revision_id: null } as Deployment, revisions)).toBeUndefined();
});

test("steps are added up, but the percentile is that of the worst step", () => {
  const point = (calls: number, p95: number | null) => ({
    calls,
    failed: 1,
    client_closed: 0,
    prompt_tokens: 10,
    completion_tokens: 5,
    duration_p95_ms: p95,
    ttft_p95_ms: null,
  });
  const sum = total([point(3, 10), point(4, 30), point(1, null)] as Point[]);
  expect(sum).toMatchObject({ calls: 8, failed: 3, promptTokens: 30, completionTokens: 15, p95: 30, ttft: null });
  expect(total([])).toMatchObject({ calls: 0, p95: null });
});

test("a search parameter that is not valid is dropped", () => {
  expect(deploymentSearch({ tab: "traffic", status: "5xx", slow: "250", outcome: "nope" })).toEqual({
    tab: "traffic",
    status: "5xx",
    slow: 250,
  });
  expect(deploymentSearch({ status: 503 }).status).toBe("503");
  expect(deploymentSearch({ status: "9xx", tab: "<x>" })).toEqual({});
});

test("snippets have the token only after it was created", () => {
  const url = absolute("/inference/dep_1/v1", "https://box.example:8443");
  expect(url).toBe("https://box.example:8443/inference/dep_1/v1");
  for (const language of languages) {
    expect(snippet(language, url, null)).toContain("DEPLOYMENT_TOKEN");
    expect(snippet(language, url, "sk-1")).toContain("sk-1");
    expect(snippet(language, url, "sk-1")).not.toContain("DEPLOYMENT_TOKEN");
    expect(snippet(language, url, null)).toContain(url);
  }
});
