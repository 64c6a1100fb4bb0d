import { oneOf, text } from "@/lib/search";

export type ModelsSearch = { q?: string };

export function modelsSearch(search: Record<string, unknown>): ModelsSearch {
  return { q: text(search.q, 200) };
}

export const tabs = ["card", "versions", "lineage", "files", "history"] as const;
export type TabName = (typeof tabs)[number];
export type VersionSearch = { tab?: TabName };

export function versionSearch(search: Record<string, unknown>): VersionSearch {
  return { tab: oneOf(search.tab, tabs) };
}
