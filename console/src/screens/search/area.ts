import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { area } from "@/app/area";
import { rootRoute } from "@/app/root";
import { texts } from "@/i18n/i18n";
import { list, text } from "@/lib/search";

export type SearchSearch = { q?: string; kinds?: string[] };

export const searchRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/search",
  validateSearch: (search: Record<string, unknown>): SearchSearch => ({
    q: text(search.q, 200),
    kinds: list(search.kinds, 20, 12),
  }),
  staticData: { crumb: "search" },
  loader: () => texts("search"),
  component: lazyRouteComponent(() => import("./SearchScreen"), "SearchScreen"),
});

export const search = area({ name: "search", routes: [searchRoute], nav: [] });
