import { oneOf, text } from "@/lib/search";

export type DatasetsSearch = { q?: string };

export function datasetsSearch(search: Record<string, unknown>): DatasetsSearch {
  return { q: text(search.q, 200) };
}

export const tabs = ["preview", "schema", "files", "versions", "lineage"] as const;
export type TabName = (typeof tabs)[number];
export type DatasetSearch = { tab?: TabName };

export function datasetSearch(search: Record<string, unknown>): DatasetSearch {
  return { tab: oneOf(search.tab, tabs) };
}
