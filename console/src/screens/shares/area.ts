import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { Link2 } from "lucide-react";
import { area } from "@/app/area";
import { rootRoute } from "@/app/root";
import { texts } from "@/i18n/i18n";

export const sharesRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/settings/shares",
  staticData: { crumb: "shares" },
  loader: () => texts("shares"),
  component: lazyRouteComponent(() => import("./SharesScreen"), "SharesScreen"),
});

// The public page of a link. It has no session and needs none.
export const sharedRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/share/$token",
  staticData: { bare: true },
  loader: () => texts("shares"),
  component: lazyRouteComponent(() => import("./SharedScreen"), "SharedScreen"),
});

export const shares = area({
  name: "shares",
  routes: [sharesRoute, sharedRoute],
  nav: [{ label: "shares", to: "/settings/shares", icon: Link2, group: "installation", order: 20 }],
});
