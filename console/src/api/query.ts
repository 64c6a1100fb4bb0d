import { QueryClient } from "@tanstack/react-query";
import { toApiError } from "./error";
import { permanent } from "./message";

const longestWait = 30_000;

// queries returns the cache of server state. A failed read is repeated three times, unless the same request would fail
// again; Retry-After decides the wait. Changes are never repeated.
export function queries(): QueryClient {
  return new QueryClient({
    defaultOptions: {
      queries: {
        staleTime: 5_000,
        gcTime: 5 * 60_000,
        retry: (failures, error) => failures < 3 && !permanent(toApiError(error)) && !inMaintenance(error),
        retryDelay: (attempt, error) => wait(attempt, toApiError(error).retryAfter, Math.random()),
        refetchOnWindowFocus: true,
        // Without this, a page that opens while the browser is offline would wait silently.
        networkMode: "always",
        throwOnError: false,
      },
      mutations: { retry: false },
    },
  });
}

// inMaintenance reports whether a read was refused because of the maintenance mode, which lasts. When it ends, the console
// reads everything again.
function inMaintenance(error: unknown): boolean {
  return toApiError(error).code === "maintenance";
}

// wait returns the milliseconds before a repetition: those that the server named, else a time that doubles, with jitter.
export function wait(attempt: number, retryAfter: number, random: number): number {
  if (retryAfter > 0) return Math.min(retryAfter * 1000 * (1 + random / 5), longestWait);
  return Math.min(500 * 2 ** attempt * (0.5 + random), longestWait);
}
