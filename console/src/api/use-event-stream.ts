import { useEffect, useRef, useState } from "react";
import { send } from "./client";
import type { ApiError } from "./error";
import { follow, type StreamDeps, type StreamEvent, type StreamState } from "./stream";

// A tab that is hidden for this long gives its stream back: the server has a limit for them.
const hiddenFor = 60_000;

const deps: StreamDeps = {
  send,
  random: Math.random,
  sleep: (ms, signal) =>
    new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      signal.addEventListener("abort", () => {
        clearTimeout(timer);
        resolve();
      });
    }),
};

// useEventStream follows a stream while the component is mounted and the tab is not hidden for long. When the tab is seen
// again, the stream continues after the last event. url null means no stream.
export function useEventStream(
  url: string | null,
  onEvent: (event: StreamEvent) => void,
): { state: StreamState; error: ApiError | null } {
  const [status, setStatus] = useState<{ state: StreamState; error: ApiError | null }>({
    state: "connecting",
    error: null,
  });
  const handler = useRef(onEvent);
  handler.current = onEvent;
  const last = useRef({ url, id: "" });
  const awake = useAwake();

  useEffect(() => {
    if (url === null) return;
    if (!awake) {
      setStatus({ state: "paused", error: null });
      return;
    }
    if (last.current.url !== url) last.current = { url, id: "" };
    const stop = new AbortController();
    void follow(
      url,
      last.current.id,
      deps,
      {
        event: (event) => {
          if (event.id !== "") last.current.id = event.id;
          handler.current(event);
        },
        state: (state, error) => setStatus({ state, error }),
      },
      stop.signal,
    );
    return () => stop.abort();
  }, [url, awake]);

  return status;
}

// useAwake reports whether the tab is shown, or was until a minute ago.
function useAwake(): boolean {
  const [awake, setAwake] = useState(true);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const look = () => {
      clearTimeout(timer);
      if (document.visibilityState === "visible") setAwake(true);
      else timer = setTimeout(() => setAwake(false), hiddenFor);
    };
    look();
    document.addEventListener("visibilitychange", look);
    return () => {
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", look);
    };
  }, []);
  return awake;
}
