import { text } from "@/lib/search";

export type ListSearch = { q?: string };

export function listSearch(search: Record<string, unknown>): ListSearch {
  return { q: text(search.q, 200) };
}

// The shown version, and the one that it is compared with. The newest is shown by default.
export type VersionSearch = { version?: string; against?: string };

export function versionSearch(search: Record<string, unknown>): VersionSearch {
  return { version: text(search.version, 128), against: text(search.against, 128) };
}
