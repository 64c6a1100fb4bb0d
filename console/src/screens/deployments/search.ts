import { integer, oneOf, text } from "@/lib/search";

export const tabs = ["overview", "revisions", "tokens", "traffic", "lineage", "events", "settings"] as const;
export type TabName = (typeof tabs)[number];

export const ranges = ["1h", "24h", "7d"] as const;
export type Range = (typeof ranges)[number];

export const outcomes = [
  "ok",
  "client_closed",
  "client_error",
  "engine_error",
  "engine_unreachable",
  "engine_timeout",
  "upstream_truncated",
  "revoked",
  "lease_over",
  "suspended",
  "idle",
  "draining",
] as const;
export type CallOutcome = (typeof outcomes)[number];

export type DeploymentSearch = {
  tab?: TabName;
  // The revision whose details are open.
  revision?: number;
  // The filters of the traffic.
  range?: Range;
  outcome?: CallOutcome;
  status?: string;
  token?: string;
  served?: number;
  slow?: number;
};

export function deploymentSearch(search: Record<string, unknown>): DeploymentSearch {
  const status = text(search.status, 3);
  return {
    tab: oneOf(search.tab, tabs),
    revision: integer(search.revision, 1, 1_000_000),
    range: oneOf(search.range, ranges),
    outcome: oneOf(search.outcome, outcomes),
    status: status && /^[1-5](\d\d|xx)$/.test(status) ? status : undefined,
    token: text(search.token, 64),
    served: integer(search.served, 1, 1_000_000),
    slow: integer(search.slow, 1, 10_000_000),
  };
}

// stepOf returns the length of a range and of its steps in seconds.
export function stepOf(range: Range): { seconds: number; step: number } {
  switch (range) {
    case "1h":
      return { seconds: 3600, step: 60 };
    case "24h":
      return { seconds: 86_400, step: 1800 };
    case "7d":
      return { seconds: 7 * 86_400, step: 3 * 3600 };
  }
}
