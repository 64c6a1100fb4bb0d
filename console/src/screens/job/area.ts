import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { area } from "@/app/area";
import { rootRoute } from "@/app/root";
import { texts } from "@/i18n/i18n";
import { prepareTab } from "./tabs";

// Each tab validates its own search parameters, see search.ts.
export const jobRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/jobs/$id/{-$tab}",
  staticData: { crumb: ({ id = "" }) => id, within: "jobs", object: ({ id = "" }) => ["job", id] },
  loader: ({ params }) => {
    prepareTab(params.tab);
    return Promise.all([texts("job"), texts("jobs")]);
  },
  component: lazyRouteComponent(() => import("./JobScreen"), "JobScreen"),
});

export const job = area({
  name: "job",
  routes: [jobRoute],
  nav: [],
  jump: { job: (id) => `/jobs/${id}` },
});
