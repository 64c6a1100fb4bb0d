import { createParser } from "eventsource-parser";
import { ApiError, failure, toApiError } from "./error";
import { permanent } from "./message";

export type StreamEvent = { id: string; event: string; data: unknown };
// A stream is paused while the tab is hidden, and waits while another stream of the tab is open.
export type StreamState = "connecting" | "open" | "reconnecting" | "paused" | "waiting" | "ended" | "failed";

export type StreamDeps = {
  send: (request: Request) => Promise<Response>;
  sleep: (ms: number, signal: AbortSignal) => Promise<void>;
  random: () => number;
};

export type StreamHandlers = {
  event: (event: StreamEvent) => void;
  state: (state: StreamState, error: ApiError | null) => void;
};

const firstWait = 500;
const longestWait = 30_000;
// The server sends a comment every 15 seconds. A stream without a byte for this long is dead.
const silence = 40_000;

// follow reads a stream of Server-Sent Events until it ends with "eof", a repetition makes no sense or the signal is
// aborted. It begins after the event with the id `after`, and opens a stream that broke again after the last event that it
// read. EventSource cannot send the access token, so this is fetch.
export async function follow(
  url: string,
  after: string,
  deps: StreamDeps,
  on: StreamHandlers,
  signal: AbortSignal,
): Promise<void> {
  let last = after;
  let attempt = 0;
  on.state("connecting", null);
  while (!signal.aborted) {
    let error: ApiError | null = null;
    try {
      const ended = await readOnce(
        url,
        last,
        deps,
        signal,
        () => on.state("open", null),
        (event) => {
          attempt = 0;
          if (event.id !== "") last = event.id;
          on.event(event);
        },
      );
      if (ended) {
        on.state("ended", null);
        return;
      }
    } catch (thrown) {
      if (signal.aborted) return;
      error = toApiError(thrown);
      if (permanent(error)) {
        on.state("failed", error);
        return;
      }
    }
    if (signal.aborted) return;
    on.state("reconnecting", error);
    await deps.sleep(backoff(attempt, error?.retryAfter ?? 0, deps.random()), signal);
    attempt++;
  }
}

// backoff returns the milliseconds before the stream is opened again. The wait doubles up to half a minute. The jitter keeps
// the tabs of many users from returning at the same moment.
export function backoff(attempt: number, retryAfter: number, random: number): number {
  if (retryAfter > 0) return retryAfter * 1000 * (1 + random / 5);
  return Math.min(firstWait * 2 ** attempt, longestWait) * (0.5 + random / 2);
}

async function readOnce(
  url: string,
  last: string,
  deps: StreamDeps,
  signal: AbortSignal,
  opened: () => void,
  emit: (event: StreamEvent) => void,
): Promise<boolean> {
  const headers = new Headers({ Accept: "text/event-stream" });
  if (last !== "") headers.set("Last-Event-ID", last);
  const cut = new AbortController();
  const response = await deps.send(
    new Request(new URL(url, location.origin), {
      headers,
      cache: "no-store",
      signal: AbortSignal.any([signal, cut.signal]),
    }),
  );
  if (!response.ok || response.body === null) {
    throw failure(response, await response.json().catch(() => null));
  }
  opened();
  let ended = false;
  const parser = createParser({
    onEvent: (message) => {
      const data: unknown = message.data === "" ? null : JSON.parse(message.data);
      if (message.event === "error") throw failure(new Response(null, { status: 503 }), data);
      if (message.event === "eof") ended = true;
      emit({ id: message.id ?? "", event: message.event ?? "message", data });
    },
  });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  try {
    while (!ended) {
      const { done, value } = await withSilence(reader.read());
      if (done) break;
      parser.feed(value);
    }
  } finally {
    cut.abort();
    reader.cancel().catch(() => undefined);
  }
  return ended;
}

async function withSilence<T>(read: Promise<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const silent = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new ApiError(0, null, "the stream was silent for too long", [], null, 0)), silence);
  });
  try {
    return await Promise.race([read, silent]);
  } finally {
    clearTimeout(timer);
  }
}
