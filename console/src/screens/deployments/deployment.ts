import type { Schemas } from "@/api/client";

export type Deployment = Schemas["Deployment"];
export type Revision = Schemas["Revision"];
export type Token = Schemas["DeploymentToken"];
export type Call = Schemas["Call"];
export type Reason = Schemas["RevisionReason"];
export type DeploymentEvent = Schemas["Event"];
export type Point = Schemas["MetricsPoint"];

const moving = new Set(["pending", "preparing", "starting", "probing", "not_ready"]);

// isMoving reports whether the state of a revision will change by itself.
export function isMoving({ state }: Pick<Revision, "state">): boolean {
  return moving.has(state);
}

// pathTo is what a revision has passed on its way to ready.
export const pathTo = ["pending", "preparing", "starting", "probing", "ready"] as const;

// Why a revision cannot be promoted: a key of cannotPromote.* in the texts, or null if it can.
export function cannotPromote(
  revision: Pick<Revision, "number" | "state" | "ready">,
  deployment: Pick<Deployment, "promoted_revision">,
): "promoted" | "notReady" | "failed" | "stopped" | null {
  if (deployment.promoted_revision === revision.number) return "promoted";
  if (revision.ready) return null;
  if (revision.state === "failed" || revision.state === "stopped") return revision.state;
  return "notReady";
}

// rollbackTarget returns the revision to which a rollback returns.
export function rollbackTarget(deployment: Deployment, revisions: readonly Revision[]): Revision | undefined {
  return revisions.find((revision) => revision.id === deployment.previous_revision_id);
}

// total adds up the steps of a range. The percentile is that of the worst step: those of steps cannot be added.
export function total(points: readonly Point[]) {
  const sum = (of: (p: Point) => number) => points.reduce((all, p) => all + of(p), 0);
  const worst = (of: (p: Point) => unknown) => {
    const known = points.map(of).filter((v): v is number => typeof v === "number");
    return known.length > 0 ? Math.max(...known) : null;
  };
  return {
    calls: sum((p) => p.calls),
    failed: sum((p) => p.failed),
    closed: sum((p) => p.client_closed),
    promptTokens: sum((p) => p.prompt_tokens),
    completionTokens: sum((p) => p.completion_tokens),
    p95: worst((p) => p.duration_p95_ms),
    ttft: worst((p) => p.ttft_p95_ms),
  };
}
