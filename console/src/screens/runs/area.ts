import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { History } from "lucide-react";
import { area } from "@/app/area";
import { rootRoute } from "@/app/root";
import { texts } from "@/i18n/i18n";
import { prepareTab } from "@/screens/job/tabs";
import { runsSearch } from "./filters";

export const runsRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/runs",
  validateSearch: runsSearch,
  staticData: { crumb: "runs" },
  loader: () => texts("runs"),
  component: lazyRouteComponent(() => import("./RunsScreen"), "RunsScreen"),
});

// The tabs of a run are those of its job.
export const runRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/runs/$id/{-$tab}",
  staticData: { crumb: ({ id = "" }) => id, within: "runs", object: ({ id = "" }) => ["run", id] },
  loader: ({ params }) => {
    prepareTab(params.tab);
    return Promise.all([texts("runs"), texts("job"), texts("jobs")]);
  },
  component: lazyRouteComponent(() => import("./RunScreen"), "RunScreen"),
});

export const runs = area({
  name: "runs",
  routes: [runsRoute, runRoute],
  nav: [{ label: "runs", to: "/runs", icon: History, group: "work", order: 30, key: "r" }],
  jump: { run: (id) => `/runs/${id}` },
});
