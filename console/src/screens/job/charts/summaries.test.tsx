import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { act, renderHook, waitFor } from "@testing-library/react";
import type { ReactNode } from "react";
import { expect, it, vi } from "vitest";
import { api } from "@/api/client";
import { useFirstSummaries, useSummaries } from "./summaries";

// The summaries of a run with 700 metrics, whose second page arrives when release is called.
function pages() {
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  const keys = Array.from({ length: 700 }, (_, at) => ({ key: `key${at}` }));
  const get = async (_: string, { params }: { params: { query: { limit: number; offset: number } } }) => {
    const { limit, offset } = params.query;
    if (offset > 0) await released;
    return { data: keys.slice(offset, offset + limit), response: new Response() };
  };
  vi.spyOn(api, "GET").mockImplementation(get as never);
  return release;
}

it("has the first page before the others, and then all", async () => {
  const release = pages();
  const client = new QueryClient();
  const wrapper = ({ children }: { children: ReactNode }) => (
    <QueryClientProvider client={client}>{children}</QueryClientProvider>
  );
  const { result } = renderHook(() => ({ all: useSummaries("run_1", false), first: useFirstSummaries("run_1") }), {
    wrapper,
  });
  await waitFor(() => expect(result.current.first).toHaveLength(500));
  expect(result.current.all.summaries).toBeUndefined();
  await act(async () => release());
  await waitFor(() => expect(result.current.all.summaries).toHaveLength(700));
});
