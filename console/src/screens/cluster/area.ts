import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { Grid3x3 } from "lucide-react";
import { area } from "@/app/area";
import { rootRoute } from "@/app/root";
import { texts } from "@/i18n/i18n";
import { oneOf, text } from "@/lib/search";

export const views = ["map", "nodes", "queue", "holders", "pools"] as const;
export type View = (typeof views)[number];

export const clusterRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/cluster",
  staticData: { crumb: "cluster" },
  loader: () => texts("cluster"),
});

export const clusterIndex = createRoute({
  getParentRoute: () => clusterRoute,
  path: "/",
  validateSearch: (search: Record<string, unknown>): { view?: View; pool?: string } => ({
    view: oneOf(search.view, views),
    pool: text(search.pool, 128),
  }),
  component: lazyRouteComponent(() => import("./ClusterScreen"), "ClusterScreen"),
});

export const nodeRoute = createRoute({
  getParentRoute: () => clusterRoute,
  path: "nodes/$id",
  staticData: { crumb: ({ id = "" }) => id, object: ({ id = "" }) => ["cluster", "nodes", id] },
  component: lazyRouteComponent(() => import("./NodeScreen"), "NodeScreen"),
});

export const cluster = area({
  name: "cluster",
  routes: [clusterRoute.addChildren([clusterIndex, nodeRoute])],
  nav: [{ label: "cluster", to: "/cluster", icon: Grid3x3, group: "hardware", order: 10, key: "c" }],
  jump: { nod: (id) => `/cluster/nodes/${id}` },
});
