import type { AnyRoute } from "@tanstack/react-router";
import type { LucideIcon } from "lucide-react";

// The groups of the navigation, in their order. Their names are navGroups.* in src/i18n.
export const navGroups = ["work", "data", "serving", "hardware", "installation"] as const;

export type NavEntry = {
  // label is a key of nav.* in src/i18n.
  label: string;
  // to is the path of the screen.
  to: string;
  icon: LucideIcon;
  group: (typeof navGroups)[number];
  // order within the group; smaller is higher.
  order: number;
  // key opens the entry after "g".
  key?: string;
  // An entry that only admins see. The API decides what they may do.
  admin?: boolean;
  // The entry is in the bar at the bottom of a phone, which has room for four.
  phone?: boolean;
};

export type Area<R extends readonly AnyRoute[] = readonly AnyRoute[]> = {
  // name is the folder in src/screens and the namespace of its texts.
  name: string;
  routes: R;
  nav: readonly NavEntry[];
  // jump maps the prefix of an id to the address of its screen, for the palette: { job: (id) => `/jobs/${id}` }.
  jump?: Record<string, (id: string) => string>;
};

export function area<const R extends readonly AnyRoute[]>(definition: Area<R>): Area<R> {
  return definition;
}
