import { integer, text } from "@/lib/search";

// The model version that a link offers to try.
export type PlaygroundSearch = { model?: string; version?: number };

export function playgroundSearch(search: Record<string, unknown>): PlaygroundSearch {
  return { model: text(search.model, 64), version: integer(search.version, 1, 1_000_000_000) };
}
