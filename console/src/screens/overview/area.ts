import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { House } from "lucide-react";
import { area } from "@/app/area";
import { rootRoute } from "@/app/root";
import { texts } from "@/i18n/i18n";

export const overviewRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/",
  staticData: { crumb: "overview" },
  // The list of jobs here has the words of the screen of jobs.
  loader: () => Promise.all([texts("overview"), texts("jobs")]),
  component: lazyRouteComponent(() => import("./OverviewScreen"), "OverviewScreen"),
});

export const overview = area({
  name: "overview",
  routes: [overviewRoute],
  nav: [{ label: "overview", to: "/", icon: House, group: "work", order: 10, key: "o", phone: true }],
});
