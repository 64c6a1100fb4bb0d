import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { ListChecks } from "lucide-react";
import { area } from "@/app/area";
import { rootRoute } from "@/app/root";
import { texts } from "@/i18n/i18n";
import { jobsSearch } from "./filters";

export const jobsRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/jobs",
  validateSearch: jobsSearch,
  staticData: { crumb: "jobs" },
  loader: () => texts("jobs"),
  component: lazyRouteComponent(() => import("./JobsScreen"), "JobsScreen"),
});

export const jobs = area({
  name: "jobs",
  routes: [jobsRoute],
  nav: [{ label: "jobs", to: "/jobs", icon: ListChecks, group: "work", order: 20, key: "j", phone: true }],
});
