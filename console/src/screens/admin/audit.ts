import { oneOf, text } from "@/lib/search";

export const spans = ["1h", "24h", "7d", "30d"] as const;
export type Span = (typeof spans)[number];
const hours: Record<Span, number> = { "1h": 1, "24h": 24, "7d": 7 * 24, "30d": 30 * 24 };

export type AuditSearch = {
  actor?: string;
  action?: string;
  target_kind?: string;
  target_id?: string;
  span?: Span;
  row?: string;
};

export function auditSearch(search: Record<string, unknown>): AuditSearch {
  return {
    actor: text(search.actor, 256),
    action: text(search.action, 128),
    target_kind: text(search.target_kind, 64),
    target_id: text(search.target_id, 64),
    span: oneOf(search.span, spans),
    row: text(search.row, 64),
  };
}

// sinceOf returns the start of a span, at a full minute, so that the pages of one list have the same start.
export function sinceOf(span: Span | undefined, now: number): string | undefined {
  if (!span) return undefined;
  const start = now - hours[span] * 3_600_000;
  return new Date(start - (start % 60_000)).toISOString();
}

export type Change = { path: string; before: string | null; after: string | null };
const mostChanges = 200;

// changesOf lists the fields that differ between two states of an object. A field that does not exist is null.
export function changesOf(before: unknown, after: unknown): Change[] {
  const old = flat(before);
  const next = flat(after);
  const paths = [...new Set([...old.keys(), ...next.keys()])];
  return paths
    .map((path) => ({ path, before: old.get(path) ?? null, after: next.get(path) ?? null }))
    .filter((change) => change.before !== change.after)
    .slice(0, mostChanges);
}

function flat(value: unknown): Map<string, string> {
  const found = new Map<string, string>();
  const walk = (path: string, part: unknown) => {
    if (typeof part === "object" && part !== null && !Array.isArray(part) && Object.keys(part).length > 0) {
      for (const [key, child] of Object.entries(part)) walk(path === "" ? key : `${path}.${key}`, child);
    } else if (part !== null && part !== undefined) {
      found.set(path, typeof part === "string" ? part : JSON.stringify(part));
    }
  };
  walk("", value);
  return found;
}
