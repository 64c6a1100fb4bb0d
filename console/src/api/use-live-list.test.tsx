import { act, renderHook, waitFor } from "@testing-library/react";
import { expect, it, vi } from "vitest";
import { ApiError } from "./error";
import { useLiveList } from "./use-live-list";

type Row = { id: string; version: number; created_at: string };

// An open stream that reports where the list begins.
const stream = () =>
  new Response(
    new ReadableStream({
      start: (out) => out.enqueue(new TextEncoder().encode('id: 1\nevent: reset\ndata: {"reason":"start"}\n\n')),
    }),
  );

it("keeps its rows when a further page fails, reports it, and repeats that page", async () => {
  vi.stubGlobal("fetch", async () => stream());
  const all = Array.from({ length: 150 }, (_, at): Row => ({ id: `r${200 - at}`, version: 1, created_at: "t" }));
  let broken = false;
  const read = vi.fn(async (limit: number, after: string | undefined) => {
    if (broken) throw new ApiError(503, null, "", [], null, 0);
    const from = after === undefined ? 0 : all.findIndex((row) => `t~${row.id}` === after) + 1;
    return all.slice(from, from + limit);
  });
  const { result } = renderHook(() => useLiveList<Row>({ url: "/api/rows/stream", event: "row", read }));
  await waitFor(() => expect(result.current.rows).toHaveLength(100));
  broken = true;
  act(() => result.current.loadMore());
  await waitFor(() => expect(result.current.stale).toMatchObject({ status: 503 }));
  expect(result.current.rows).toHaveLength(100);
  broken = false;
  act(() => result.current.retry());
  await waitFor(() => expect(result.current.rows).toHaveLength(150));
  expect(result.current.stale).toBeNull();
  expect(read.mock.lastCall?.[1]).toBe("t~r101");
});
