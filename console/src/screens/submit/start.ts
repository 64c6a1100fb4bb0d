import { stringify } from "yaml";
import type { Schemas } from "@/api/client";

export type Recipe = Schemas["Recipe"];
export type Lock = Schemas["RecipeLockDocument"];

export type Input = { name: string; kind: string; required: boolean; description: string };

export const custom = "custom/custom";

// inputsOf returns the inputs that a job of a recipe can bind.
export function inputsOf(recipe: Recipe): Input[] {
  return (Array.isArray(recipe.inputs) ? recipe.inputs : []).flatMap((input: Partial<Input> | null) =>
    typeof input?.name === "string"
      ? [
          {
            name: input.name,
            kind: String(input.kind),
            required: input.required === true,
            description: typeof input.description === "string" ? input.description : "",
          },
        ]
      : [],
  );
}

// startOf returns the YAML with which a submission begins: what the recipe needs, and nothing that has a default.
export function startOf(recipe: Recipe, lock: Lock, project: string | undefined, pool: string): string {
  const hint: Record<string, unknown> = Object(recipe.resources_hint);
  const size = (key: string) => (typeof hint[key] === "number" && hint[key] > 0 ? hint[key] : undefined);
  const request = { pool, gpus_per_node: size("gpus"), cpu: size("cpu"), memory_gb: size("memory_gb") };
  const spec = {
    name: recipe.name.split("/")[1] ?? recipe.name,
    project: project ?? "default",
    ...(recipe.name === custom ? { source: { command: ["echo", "hello"] } } : {}),
    resources: { pools: [request] },
    recipe: { name: recipe.name, version: recipe.version, lock },
  };
  return stringify(JSON.parse(JSON.stringify(spec)), { lineWidth: 0 });
}

// newest returns the recipes with their newest usable version. The API sorts versions as texts, people count.
export function newest(recipes: readonly Recipe[]): Recipe[] {
  const found = new Map<string, Recipe>();
  for (const recipe of recipes) {
    const before = found.get(recipe.name);
    if (recipe.state === "active" && (!before || compareVersions(recipe.version, before.version) > 0))
      found.set(recipe.name, recipe);
  }
  return [...found.values()].sort(
    (a, b) => Number(a.name === custom) - Number(b.name === custom) || (a.name < b.name ? -1 : 1),
  );
}

export function compareVersions(a: string, b: string): number {
  return a.localeCompare(b, "en", { numeric: true });
}
