import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { Users } from "lucide-react";
import { area } from "@/app/area";
import { rootRoute } from "@/app/root";
import { texts } from "@/i18n/i18n";

export const teamsRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/teams",
  staticData: { crumb: "teams" },
  loader: () => texts("teams"),
});

const listRoute = createRoute({
  getParentRoute: () => teamsRoute,
  path: "/",
  component: lazyRouteComponent(() => import("./TeamsScreen"), "TeamsScreen"),
});

export const teamRoute = createRoute({
  getParentRoute: () => teamsRoute,
  path: "$id",
  staticData: { crumb: ({ id = "" }) => id, object: ({ id = "" }) => ["teams", id] },
  component: lazyRouteComponent(() => import("./TeamScreen"), "TeamScreen"),
});

export const teams = area({
  name: "teams",
  routes: [teamsRoute.addChildren([listRoute, teamRoute])],
  nav: [{ label: "teams", to: "/teams", icon: Users, group: "work", order: 70 }],
  jump: { team: (id) => `/teams/${id}` },
});
