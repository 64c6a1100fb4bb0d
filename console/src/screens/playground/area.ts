import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { MessagesSquare } from "lucide-react";
import { area } from "@/app/area";
import { rootRoute } from "@/app/root";
import { texts } from "@/i18n/i18n";
import { playgroundSearch } from "./search";

const playgroundRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/playground",
  staticData: { crumb: "playground" },
  loader: () => Promise.all([texts("playground"), texts("models"), texts("deployments")]),
});

export const startRoute = createRoute({
  getParentRoute: () => playgroundRoute,
  path: "/",
  validateSearch: playgroundSearch,
  component: lazyRouteComponent(() => import("./StartScreen"), "StartScreen"),
});

export const sessionRoute = createRoute({
  getParentRoute: () => playgroundRoute,
  path: "$session",
  staticData: { crumb: ({ session = "" }) => session, object: ({ session = "" }) => ["playground", session] },
  component: lazyRouteComponent(() => import("./SessionScreen"), "SessionScreen"),
});

export const playground = area({
  name: "playground",
  routes: [playgroundRoute.addChildren([startRoute, sessionRoute])],
  nav: [{ label: "playground", to: "/playground", icon: MessagesSquare, group: "serving", order: 20 }],
  jump: { pg: (id) => `/playground/${id}` },
});
