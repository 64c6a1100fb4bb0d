import { QueryClient, QueryClientProvider, useQuery } from "@tanstack/react-query";
import { renderHook, waitFor } from "@testing-library/react";
import type { ReactNode } from "react";
import { expect, it } from "vitest";
import { useLastReads } from "./last-reads";

it("reads what is shown of a run once more when it ends", async () => {
  const reads: Record<string, number> = {};
  const client = new QueryClient();
  const wrapper = ({ children }: { children: ReactNode }) => (
    <QueryClientProvider client={client}>{children}</QueryClientProvider>
  );
  const count = (name: string) => async () => {
    reads[name] = (reads[name] ?? 0) + 1;
    return reads[name];
  };
  const { rerender } = renderHook(
    ({ live }) => {
      useLastReads(live);
      useQuery({ queryKey: ["run", "run_1", "log-tail", 12], queryFn: count("tail") });
      useQuery({ queryKey: ["compare", "series", ["run_1", "run_2"]], queryFn: count("series") });
      useQuery({ queryKey: ["run", "run_2"], queryFn: count("other") });
    },
    { wrapper, initialProps: { live: ["run_1", "run_2"] } },
  );
  await waitFor(() => expect(reads).toEqual({ tail: 1, series: 1, other: 1 }));
  rerender({ live: ["run_2"] });
  await waitFor(() => expect(reads).toEqual({ tail: 2, series: 2, other: 1 }));
  rerender({ live: [] });
  await waitFor(() => expect(reads).toEqual({ tail: 2, series: 3, other: 2 }));
});
