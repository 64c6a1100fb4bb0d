import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { Cpu, KeyRound, ScrollText, SlidersHorizontal, UserCog, Wrench } from "lucide-react";
import { area } from "@/app/area";
import { rootRoute } from "@/app/root";
import { texts } from "@/i18n/i18n";
import { oneOf, text } from "@/lib/search";
import { auditSearch } from "./audit";

// All screens below /admin are for admins; others see who may open them.
export const adminRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/admin",
  staticData: { crumb: "admin" },
  loader: () => texts("admin"),
  component: lazyRouteComponent(() => import("./AdminFrame"), "AdminFrame"),
});

export const usersRoute = createRoute({
  getParentRoute: () => adminRoute,
  path: "users",
  staticData: { crumb: "users" },
  validateSearch: (search: Record<string, unknown>): { q?: string } => ({ q: text(search.q, 200) }),
  component: lazyRouteComponent(() => import("./UsersScreen"), "UsersScreen"),
});

export const userRoute = createRoute({
  getParentRoute: () => adminRoute,
  path: "users/$id",
  staticData: { crumb: ({ id = "" }) => id, object: ({ id = "" }) => ["admin", "users", id] },
  component: lazyRouteComponent(() => import("./UserScreen"), "UserScreen"),
});

export const auditRoute = createRoute({
  getParentRoute: () => adminRoute,
  path: "audit",
  staticData: { crumb: "audit" },
  validateSearch: auditSearch,
  component: lazyRouteComponent(() => import("./AuditScreen"), "AuditScreen"),
});

export const hardwareRoute = createRoute({
  getParentRoute: () => adminRoute,
  path: "hardware",
  staticData: { crumb: "hardware" },
  validateSearch: (search: Record<string, unknown>): { view?: "edit" } => ({ view: oneOf(search.view, ["edit"]) }),
  component: lazyRouteComponent(() => import("./HardwareScreen"), "HardwareScreen"),
});

export const installationRoute = createRoute({
  getParentRoute: () => adminRoute,
  path: "settings",
  staticData: { crumb: "installation" },
  validateSearch: (search: Record<string, unknown>): { q?: string } => ({ q: text(search.q, 200) }),
  component: lazyRouteComponent(() => import("./SettingsScreen"), "SettingsScreen"),
});

export const maintenanceRoute = createRoute({
  getParentRoute: () => adminRoute,
  path: "maintenance",
  staticData: { crumb: "maintenance" },
  component: lazyRouteComponent(() => import("./MaintenanceScreen"), "MaintenanceScreen"),
});

export const keysRoute = createRoute({
  getParentRoute: () => adminRoute,
  path: "keys",
  staticData: { crumb: "keys" },
  component: lazyRouteComponent(() => import("./KeysScreen"), "KeysScreen"),
});

const group = "installation" as const;

export const admin = area({
  name: "admin",
  routes: [
    adminRoute.addChildren([
      usersRoute,
      userRoute,
      auditRoute,
      hardwareRoute,
      installationRoute,
      maintenanceRoute,
      keysRoute,
    ]),
  ],
  nav: [
    { label: "users", to: "/admin/users", icon: UserCog, group, order: 40, admin: true },
    { label: "hardware", to: "/admin/hardware", icon: Cpu, group, order: 50, admin: true },
    { label: "installation", to: "/admin/settings", icon: SlidersHorizontal, group, order: 60, admin: true },
    { label: "maintenance", to: "/admin/maintenance", icon: Wrench, group, order: 70, admin: true },
    { label: "keys", to: "/admin/keys", icon: KeyRound, group, order: 80, admin: true },
    { label: "audit", to: "/admin/audit", icon: ScrollText, group, order: 90, admin: true },
  ],
  jump: { usr: (id) => `/admin/users/${id}` },
});
