import { useMemo } from "react";
import { session } from "@/auth/browser";
import { type NavEntry, navGroups } from "./area";
import { areas } from "./routes";

// allNav returns the entries of the navigation, in their order.
export function allNav(): NavEntry[] {
  return areas
    .flatMap((a): readonly NavEntry[] => a.nav)
    .filter((entry) => !entry.admin || session.user?.role === "admin")
    .sort((a, b) => navGroups.indexOf(a.group) - navGroups.indexOf(b.group) || a.order - b.order);
}

export function useNav(): { group: string; entries: NavEntry[] }[] {
  return useMemo(() => {
    const all = allNav();
    return navGroups
      .map((group) => ({ group, entries: all.filter((e) => e.group === group) }))
      .filter((g) => g.entries.length > 0);
  }, []);
}

// jumpTo returns the address of the object with an id such as job_01kab3c4d5e6f7g8h9j0kmnpqr, or null.
export function jumpTo(id: string): string | null {
  const [prefix = ""] = id.split("_");
  if (!/^[a-z]{2,4}_[0-9a-z]{6,40}$/.test(id)) return null;
  for (const { jump } of areas) {
    const to = jump?.[prefix];
    if (to) return to(id);
  }
  return null;
}
