import { expect, test, vi } from "vitest";
import { backoff, follow, type StreamEvent, type StreamState } from "./stream";

vi.stubGlobal("location", { origin: "http://127.0.0.1:5173" });

// play follows a stream whose server gives the responses one after the other.
async function play(responses: (Response | Error)[], after = "") {
  const asked: (string | null)[] = [];
  const slept: number[] = [];
  const events: StreamEvent[] = [];
  const states: StreamState[] = [];
  const stop = new AbortController();
  await follow(
    "/api/jobs/stream?state=running",
    after,
    {
      send: async (request) => {
        asked.push(request.headers.get("Last-Event-ID"));
        const next = responses.shift();
        if (next === undefined) stop.abort();
        if (next instanceof Error || next === undefined) throw next ?? new Error("over");
        return next;
      },
      sleep: async (ms) => {
        slept.push(ms);
      },
      random: () => 0,
    },
    { event: (event) => events.push(event), state: (state) => states.push(state) },
    stop.signal,
  );
  return { asked, slept, events, states };
}

const body = (text: string) => new Response(text, { headers: { "Content-Type": "text/event-stream" } });
const refusal = (status: number, headers = {}) => Response.json({ detail: "no", code: "streams" }, { status, headers });

test("events are read until eof", async () => {
  const { events, states, asked } = await play([
    body(': hello\n\nid: 1\nevent: job\ndata: {"id":"job_1"}\n\nid: 2\nevent: eof\ndata: {}\n\n'),
  ]);
  expect(events).toEqual([
    { id: "1", event: "job", data: { id: "job_1" } },
    { id: "2", event: "eof", data: {} },
  ]);
  expect(states).toEqual(["connecting", "open", "ended"]);
  expect(asked).toEqual([null]);
});

test("a stream that breaks is opened again after the last event", async () => {
  const { asked, states, slept } = await play([
    body('id: 7\nevent: job\ndata: {"id":"job_1"}\n\n'),
    new TypeError("Failed to fetch"),
    body("id: 8\nevent: eof\ndata: {}\n\n"),
  ]);
  expect(asked).toEqual([null, "7", "7"]);
  expect(states).toEqual(["connecting", "open", "reconnecting", "reconnecting", "open", "ended"]);
  expect(slept).toEqual([250, 500]);
});

test("a stream continues where the page left it", async () => {
  const { asked } = await play([body("id: 9\nevent: eof\ndata: {}\n\n")], "8");
  expect(asked).toEqual(["8"]);
});

test("an error event and a busy server are tried again, after the named time", async () => {
  const { slept, states } = await play([
    body('event: error\ndata: {"detail":"database","code":"database_busy"}\n\n'),
    refusal(429, { "Retry-After": "4" }),
    body("event: eof\ndata: {}\n\n"),
  ]);
  expect(slept).toEqual([250, 4000]);
  expect(states.at(-1)).toBe("ended");
});

test("a refusal that stays is final", async () => {
  const { asked, states } = await play([refusal(403), body("")]);
  expect(asked).toHaveLength(1);
  expect(states).toEqual(["connecting", "failed"]);
});

test("the wait doubles, is bounded and has jitter", () => {
  expect([0, 1, 2, 3, 20].map((n) => backoff(n, 0, 0))).toEqual([250, 500, 1000, 2000, 15_000]);
  expect(backoff(20, 0, 1)).toBe(30_000);
  expect(backoff(0, 10, 1)).toBe(12_000);
});
