import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { Server } from "lucide-react";
import { area } from "@/app/area";
import { rootRoute } from "@/app/root";
import { texts } from "@/i18n/i18n";
import { deploymentSearch } from "./search";

const deploymentsRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/deployments",
  staticData: { crumb: "deployments" },
  loader: () => Promise.all([texts("deployments"), texts("models")]),
});

const listRoute = createRoute({
  getParentRoute: () => deploymentsRoute,
  path: "/",
  component: lazyRouteComponent(() => import("./DeploymentsScreen"), "DeploymentsScreen"),
});

export const deploymentRoute = createRoute({
  getParentRoute: () => deploymentsRoute,
  path: "$id",
  validateSearch: deploymentSearch,
  staticData: { crumb: ({ id = "" }) => id, object: ({ id = "" }) => ["deployments", id] },
  component: lazyRouteComponent(() => import("./DeploymentScreen"), "DeploymentScreen"),
});

export const deployments = area({
  name: "deployments",
  routes: [deploymentsRoute.addChildren([listRoute, deploymentRoute])],
  nav: [{ label: "deployments", to: "/deployments", icon: Server, group: "serving", order: 10, key: "d", phone: true }],
  jump: { dep: (id) => `/deployments/${id}` },
});
