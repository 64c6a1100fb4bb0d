import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { Server } from "lucide-react";
import { area } from "@/app/area";
import { rootRoute } from "@/app/root";
import { texts } from "@/i18n/i18n";
import { oneOf } from "@/lib/search";

export const fleetsRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/fleets",
  staticData: { crumb: "fleets" },
  loader: () => Promise.all([texts("fleets"), texts("cluster")]),
});

const listRoute = createRoute({
  getParentRoute: () => fleetsRoute,
  path: "/",
  component: lazyRouteComponent(() => import("./FleetsScreen"), "FleetsScreen"),
});

export const fleetViews = ["slurm", "nodes", "tokens", "events"] as const;
export type FleetView = (typeof fleetViews)[number];

export const fleetRoute = createRoute({
  getParentRoute: () => fleetsRoute,
  path: "$id",
  staticData: { crumb: ({ id = "" }) => id, object: ({ id = "" }) => ["fleets", id] },
  validateSearch: (search: Record<string, unknown>): { view?: FleetView } => ({ view: oneOf(search.view, fleetViews) }),
  component: lazyRouteComponent(() => import("./FleetScreen"), "FleetScreen"),
});

export const fleets = area({
  name: "fleets",
  routes: [fleetsRoute.addChildren([listRoute, fleetRoute])],
  nav: [{ label: "fleets", to: "/fleets", icon: Server, group: "hardware", order: 20 }],
  jump: { flt: (id) => `/fleets/${id}` },
});
