import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { CirclePlus } from "lucide-react";
import { area } from "@/app/area";
import { rootRoute } from "@/app/root";
import { texts } from "@/i18n/i18n";
import { oneOf, text } from "@/lib/search";

export const forms = ["form", "yaml"] as const;
export type Form = (typeof forms)[number];

export const submitRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/submit",
  validateSearch: (search: Record<string, unknown>): { recipe?: string; version?: string; view?: Form } => ({
    recipe: text(search.recipe, 128),
    version: text(search.version, 64),
    view: oneOf(search.view, forms),
  }),
  staticData: { crumb: "submit" },
  loader: () => texts("submit"),
  component: lazyRouteComponent(() => import("./SubmitScreen"), "SubmitScreen"),
});

export const submit = area({
  name: "submit",
  routes: [submitRoute],
  nav: [{ label: "submit", to: "/submit", icon: CirclePlus, group: "work", order: 15, key: "s" }],
});
