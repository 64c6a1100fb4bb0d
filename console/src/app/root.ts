import { createRootRoute, lazyRouteComponent, retainSearchParams } from "@tanstack/react-router";
import { session } from "@/auth/browser";
import { text } from "@/lib/search";
import { NotFound } from "./NotFound";
import { RouteError } from "./RouteError";

declare module "@tanstack/react-router" {
  interface StaticDataRouteOption {
    // crumb is what the breadcrumbs show for the route: a key of nav.* in src/i18n, or a function of its parameters.
    crumb?: string | ((params: Record<string, string>) => string);
    // within is the crumb before it, where the route of the list is not above that of the object: a key of nav.*, whose path
    // it is too.
    within?: string;
    // object is the key of the read of the route's object. The breadcrumbs show its name in place of the id.
    object?: (params: Record<string, string>) => readonly string[];
    // A bare route needs no session and has no navigation, such as a public link.
    bare?: boolean;
  }
}

export type RootSearch = {
  // The project that the lists are about. The switcher in the header sets it, and links keep it.
  project?: string;
};

export const rootRoute = createRootRoute({
  validateSearch: (search: Record<string, unknown>): RootSearch => ({ project: text(search.project, 64) }),
  search: { middlewares: [retainSearchParams(["project"])] },
  beforeLoad: async ({ matches }) => {
    if (matches.at(-1)?.staticData.bare || session.token !== null) return;
    if (await session.refresh()) return;
    session.lose();
    // The sign-in page is opening: show nothing until then.
    await new Promise(() => undefined);
  },
  component: lazyRouteComponent(() => import("./Shell"), "Shell"),
  errorComponent: RouteError,
  notFoundComponent: NotFound,
});
