import { useQuery } from "@tanstack/react-query";
import { api, call } from "@/api/client";
import type { Run } from "../api";
import { patternsOf } from "./chosen";
import { record } from "./Hparams";

// usePatterns returns which metrics the recipe of a run is about; an empty list if it does not say, undefined while it is
// being read. A recipe that is not in the catalog any more names none.
export function usePatterns(run: Run): readonly string[] | undefined {
  const { name = "", version = "" } = record(run.recipe_lock) as { name?: string; version?: string };
  const [namespace = "", rest = ""] = name.split("/");
  const known = rest !== "" && version !== "";
  const { data, isError } = useQuery({
    queryKey: ["recipe", name, version, "metrics"],
    queryFn: async ({ signal }) => {
      const path = { namespace, name: rest, version };
      const recipe = await call(
        api.GET("/api/recipes/{namespace}/{name}/versions/{version}", { params: { path }, signal }),
      );
      return patternsOf(recipe.metrics);
    },
    enabled: known,
    staleTime: Number.POSITIVE_INFINITY,
    retry: false,
  });
  return known && !isError ? data : none;
}

const none: readonly string[] = [];
