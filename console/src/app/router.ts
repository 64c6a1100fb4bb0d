import { createRouter } from "@tanstack/react-router";
import { TooltipProvider } from "@/ui/Tooltip";
import { NotFound } from "./NotFound";
import { Pending } from "./Pending";
import { RouteError } from "./RouteError";
import { rootRoute } from "./root";
import { areas } from "./routes";

type Areas = (typeof areas)[number];
type Routes = Areas["routes"][number][];

const routeTree = rootRoute.addChildren(areas.flatMap((a): Routes => [...a.routes]));

export const router = createRouter({
  routeTree,
  defaultPreload: "intent",
  defaultPreloadStaleTime: 0,
  defaultPendingMs: 150,
  defaultPendingMinMs: 0,
  defaultPendingComponent: Pending,
  defaultErrorComponent: RouteError,
  defaultNotFoundComponent: NotFound,
  scrollRestoration: true,
  // Around all screens and the error of the shell.
  Wrap: TooltipProvider,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
