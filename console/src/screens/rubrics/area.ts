import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { ClipboardList } from "lucide-react";
import { area } from "@/app/area";
import { rootRoute } from "@/app/root";
import { texts } from "@/i18n/i18n";
import { listSearch, versionSearch } from "./search";

const rubricsRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/rubrics",
  staticData: { crumb: "rubrics" },
  loader: () => texts("rubrics"),
});

export const listRoute = createRoute({
  getParentRoute: () => rubricsRoute,
  path: "/",
  validateSearch: listSearch,
  component: lazyRouteComponent(() => import("./RubricsScreen"), "RubricsScreen"),
});

export const rubricRoute = createRoute({
  getParentRoute: () => rubricsRoute,
  path: "$id",
  validateSearch: versionSearch,
  staticData: { crumb: ({ id = "" }) => id, object: ({ id = "" }) => ["rubrics", id] },
  component: lazyRouteComponent(() => import("./RubricScreen"), "RubricScreen"),
});

export const rubrics = area({
  name: "rubrics",
  routes: [rubricsRoute.addChildren([listRoute, rubricRoute])],
  nav: [{ label: "rubrics", to: "/rubrics", icon: ClipboardList, group: "data", order: 50 }],
  jump: { rub: (id) => `/rubrics/${id}` },
});
