import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { FlaskConical } from "lucide-react";
import { area } from "@/app/area";
import { rootRoute } from "@/app/root";
import { texts } from "@/i18n/i18n";
import { listSearch, versionSearch } from "./search";

const environmentsRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/environments",
  staticData: { crumb: "environments" },
  loader: () => texts("environments"),
});

export const listRoute = createRoute({
  getParentRoute: () => environmentsRoute,
  path: "/",
  validateSearch: listSearch,
  component: lazyRouteComponent(() => import("./EnvironmentsScreen"), "EnvironmentsScreen"),
});

export const environmentRoute = createRoute({
  getParentRoute: () => environmentsRoute,
  path: "$id",
  validateSearch: versionSearch,
  staticData: { crumb: ({ id = "" }) => id, object: ({ id = "" }) => ["environments", id] },
  component: lazyRouteComponent(() => import("./EnvironmentScreen"), "EnvironmentScreen"),
});

export const environments = area({
  name: "environments",
  routes: [environmentsRoute.addChildren([listRoute, environmentRoute])],
  nav: [{ label: "environments", to: "/environments", icon: FlaskConical, group: "data", order: 30 }],
  jump: { env: (id) => `/environments/${id}` },
});
