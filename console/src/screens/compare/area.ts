import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { area } from "@/app/area";
import { rootRoute } from "@/app/root";
import { texts } from "@/i18n/i18n";
import { type CompareSearch, compareSearch } from "./search";

export const compareRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/compare",
  validateSearch: (search: Record<string, unknown>): CompareSearch => compareSearch(search),
  staticData: { crumb: "compare" },
  loader: () => Promise.all([texts("compare"), texts("job"), texts("jobs")]),
  component: lazyRouteComponent(() => import("./CompareScreen"), "CompareScreen"),
});

export const compare = area({ name: "compare", routes: [compareRoute], nav: [] });
