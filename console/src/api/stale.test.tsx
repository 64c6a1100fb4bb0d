import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { act, renderHook, waitFor } from "@testing-library/react";
import type { ReactNode } from "react";
import { expect, it } from "vitest";
import { ApiError } from "./error";
import { usePages } from "./pages";
import { useStale } from "./stale";

const failure = (status: number) => new ApiError(status, null, "", [], null, 0);

// list has a list of two pages, whose next reading fails with the status that is set.
function list(status = 0) {
  const server = { status, reads: 0 };
  const client = new QueryClient({ defaultOptions: { queries: { retry: false } } });
  const wrapper = ({ children }: { children: ReactNode }) => (
    <QueryClientProvider client={client}>{children}</QueryClientProvider>
  );
  const hook = () => {
    const pages = usePages(["list"], 1, 0, async (_, at) => {
      server.reads++;
      if (server.status > 0) throw failure(server.status);
      return { rows: [at], next: at === 0 ? 1 : null };
    });
    return { pages, stale: useStale() };
  };
  return { server, result: renderHook(hook, { wrapper }).result };
}

it("reports that a list could not be read again until it was", async () => {
  const { server, result } = list();
  await waitFor(() => expect(result.current.pages.rows).toEqual([0]));
  expect(result.current.stale.error).toBeNull();
  server.status = 503;
  act(() => result.current.pages.refetch());
  await waitFor(() => expect(result.current.stale.error).toMatchObject({ status: 503 }));
  expect(result.current.pages.rows).toEqual([0]);
  server.status = 0;
  act(() => result.current.stale.retry(false));
  await waitFor(() => expect(result.current.stale.error).toBeNull());
});

it("reports that a further page could not be read, and repeats only what may succeed by itself", async () => {
  const { server, result } = list();
  await waitFor(() => expect(result.current.pages.more).toBe(true));
  server.status = 403;
  act(() => result.current.pages.loadMore());
  await waitFor(() => expect(result.current.stale.error).toMatchObject({ status: 403 }));
  const before = server.reads;
  act(() => result.current.stale.retry(false));
  expect(server.reads).toBe(before);
  server.status = 0;
  act(() => result.current.stale.retry(true));
  await waitFor(() => expect(result.current.stale.error).toBeNull());
});

it("ignores a failed first read, which the screen shows", async () => {
  const { server, result } = list(503);
  await waitFor(() => expect(result.current.pages.error).toMatchObject({ status: 503 }));
  expect(result.current.stale.error).toBeNull();
  act(() => result.current.pages.refetch());
  await waitFor(() => expect(server.reads).toBe(2));
  await waitFor(() => expect(result.current.pages.error).toMatchObject({ status: 503 }));
  expect(result.current.stale.error).toBeNull();
});
