import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { renderHook, waitFor } from "@testing-library/react";
import type { ReactNode } from "react";
import { expect, it, vi } from "vitest";
import { useJob } from "./api";

it("reads a job again whose stream was refused for good, and shows that it is not live", async () => {
  let state = "running";
  vi.stubGlobal("fetch", async (request: Request) =>
    request.url.includes("/stream")
      ? Response.json({ detail: "no", code: "too_many_streams" }, { status: 403 })
      : Response.json({ id: "job_1", version: state === "running" ? 1 : 2, state, queue: null }),
  );
  const client = new QueryClient();
  const wrapper = ({ children }: { children: ReactNode }) => (
    <QueryClientProvider client={client}>{children}</QueryClientProvider>
  );
  const { result } = renderHook(() => useJob("job_1"), { wrapper });
  await waitFor(() => expect(result.current.stream).toBe("failed"));
  state = "stopped";
  await waitFor(() => expect(result.current.job?.state).toBe("stopped"), { timeout: 10_000 });
  expect(result.current.stream).toBe("ended");
});
