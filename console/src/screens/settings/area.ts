import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { CircleUser } from "lucide-react";
import { area } from "@/app/area";
import { rootRoute } from "@/app/root";
import { texts } from "@/i18n/i18n";

export const profileRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/settings/profile",
  staticData: { crumb: "profile" },
  loader: () => texts("settings"),
  component: lazyRouteComponent(() => import("./ProfileScreen"), "ProfileScreen"),
});

export const settings = area({
  name: "settings",
  routes: [profileRoute],
  nav: [{ label: "profile", to: "/settings/profile", icon: CircleUser, group: "installation", order: 10 }],
});
