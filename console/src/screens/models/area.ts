import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { Boxes } from "lucide-react";
import { area } from "@/app/area";
import { rootRoute } from "@/app/root";
import { texts } from "@/i18n/i18n";
import { modelsSearch, versionSearch } from "./search";

const modelsRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/models",
  staticData: { crumb: "models" },
  loader: () => texts("models"),
});

export const modelsListRoute = createRoute({
  getParentRoute: () => modelsRoute,
  path: "/",
  validateSearch: modelsSearch,
  component: lazyRouteComponent(() => import("./ModelsScreen"), "ModelsScreen"),
});

// A model is found by its id: its name is unique only in its project. The version is a number or "latest".
export const versionRoute = createRoute({
  getParentRoute: () => modelsRoute,
  path: "$id/$version",
  validateSearch: versionSearch,
  staticData: {
    crumb: (params) => (params.version === "latest" ? (params.id ?? "") : `${params.id} v${params.version}`),
    object: ({ id = "" }) => ["models", id, "tagged"],
  },
  component: lazyRouteComponent(() => import("./ModelScreen"), "ModelScreen"),
});

export const models = area({
  name: "models",
  routes: [modelsRoute.addChildren([modelsListRoute, versionRoute])],
  nav: [{ label: "models", to: "/models", icon: Boxes, group: "data", order: 20, key: "m" }],
  jump: { mdl: (id) => `/models/${id}/latest` },
});
