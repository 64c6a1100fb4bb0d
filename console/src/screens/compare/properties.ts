import { record } from "@/screens/job/overview/Hparams";
import type { Compared } from "./use-compared";

// properties are the origin and the parameters of a run by their names.
export function properties({ run, params }: Compared): Record<string, unknown> {
  const lock = record(run.recipe_lock);
  const origin: Record<string, unknown> = { owner: run.owner, project: run.project };
  // A run that was made without a job has no recipe.
  if (lock.name !== undefined) origin.recipe = `${lock.name} ${lock.version}`;
  for (const [name, value] of Object.entries(record(record(run.bindings).datasets))) origin[`dataset.${name}`] = value;
  for (const [name, value] of Object.entries(run.labels)) origin[`label.${name}`] = value;
  return { ...origin, ...params };
}
