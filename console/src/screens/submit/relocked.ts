import { type Difference, differences } from "@/lib/flatten";
import type { Locked } from "./api";
import type { Lock } from "./start";

export type RecipeOfSpec = { name: string; version: string; lock: Lock };

// relocked returns the recipe of a spec with the lock that the catalog has now, and what differs from the spec's.
export function relocked(before: unknown, now: Locked): { recipe: RecipeOfSpec; rows: Difference[] } {
  const recipe = { name: now.recipe.name, version: now.recipe.version, lock: now.lock };
  return { recipe, rows: differences(before ?? {}, recipe) };
}
