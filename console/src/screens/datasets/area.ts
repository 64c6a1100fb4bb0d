import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { Database } from "lucide-react";
import { area } from "@/app/area";
import { rootRoute } from "@/app/root";
import { texts } from "@/i18n/i18n";
import { datasetSearch, datasetsSearch } from "./search";

const datasetsRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/datasets",
  staticData: { crumb: "datasets" },
  loader: () => texts("datasets"),
});

export const datasetsListRoute = createRoute({
  getParentRoute: () => datasetsRoute,
  path: "/",
  validateSearch: datasetsSearch,
  component: lazyRouteComponent(() => import("./DatasetsScreen"), "DatasetsScreen"),
});

// A dataset is found by its id: its name is unique only in its project. The version is a name or "latest".
export const datasetRoute = createRoute({
  getParentRoute: () => datasetsRoute,
  path: "$id/$version",
  validateSearch: datasetSearch,
  staticData: {
    crumb: (params) => (params.version === "latest" ? (params.id ?? "") : `${params.id} ${params.version}`),
    object: ({ id = "" }) => ["datasets", id],
  },
  component: lazyRouteComponent(() => import("./DatasetScreen"), "DatasetScreen"),
});

export const datasets = area({
  name: "datasets",
  routes: [datasetsRoute.addChildren([datasetsListRoute, datasetRoute])],
  nav: [{ label: "datasets", to: "/datasets", icon: Database, group: "data", order: 10 }],
  jump: { ds: (id) => `/datasets/${id}/latest` },
});
