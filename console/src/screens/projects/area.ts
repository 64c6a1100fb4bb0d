import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { FolderKanban } from "lucide-react";
import { area } from "@/app/area";
import { rootRoute } from "@/app/root";
import { texts } from "@/i18n/i18n";

export const projectsRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/projects",
  staticData: { crumb: "projects" },
  loader: () => texts("projects"),
});

const listRoute = createRoute({
  getParentRoute: () => projectsRoute,
  path: "/",
  component: lazyRouteComponent(() => import("./ProjectsScreen"), "ProjectsScreen"),
});

export const projectRoute = createRoute({
  getParentRoute: () => projectsRoute,
  path: "$key",
  staticData: { crumb: (params) => params.key ?? "" },
  component: lazyRouteComponent(() => import("./ProjectScreen"), "ProjectScreen"),
});

export const projects = area({
  name: "projects",
  routes: [projectsRoute.addChildren([listRoute, projectRoute])],
  nav: [{ label: "projects", to: "/projects", icon: FolderKanban, group: "work", order: 60, key: "p" }],
});
