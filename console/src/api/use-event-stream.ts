import { useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import { send } from "./client";
import type { ApiError } from "./error";
import { StreamSlot } from "./slot";
import { follow, type StreamDeps, type StreamEvent, type StreamState } from "./stream";

// A tab that is hidden for this long closes its stream: the browser has few connections for all tabs.
const hiddenFor = 1_000;

// The ranks of the streams of a tab.
export const rankOfObject = 1;
export const rankOfMetrics = 2;
export const rankOfLog = 3;

const slot = new StreamSlot();

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

type Status = { url: string | null; state: StreamState; error: ApiError | null };

// useEventStream follows a stream while the component is mounted, the tab is shown and no stream with a higher rank is open
// in the tab. It continues after the last event when the tab is shown again or the other stream is closed. While the state
// is "waiting", the caller polls. url null means no stream.
export function useEventStream(
  url: string | null,
  rank: number,
  onEvent: (event: StreamEvent) => void,
): { state: StreamState; error: ApiError | null } {
  const [status, setStatus] = useState<Status>({ url: null, state: "connecting", error: null });
  const handler = useRef(onEvent);
  handler.current = onEvent;
  const last = useRef({ url, id: "" });
  const awake = useAwake();
  const over = status.url === url && (status.state === "ended" || status.state === "failed");
  const claim = useMemo(() => ({ rank }), [rank]);
  const wanted = url !== null && awake && !over;
  useEffect(() => (wanted ? slot.claim(claim) : undefined), [wanted, claim]);
  const first = useSyncExternalStore(slot.subscribe, () => slot.holder() === claim);

  useEffect(() => {
    if (url === null || over) return;
    if (!awake) {
      setStatus({ url, state: "paused", error: null });
      return;
    }
    if (!first) {
      if (slot.holder() !== claim) setStatus({ url, state: "waiting", error: null });
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
        state: (state, error) => setStatus({ url, state, error }),
      },
      stop.signal,
    );
    return () => stop.abort();
  }, [url, awake, over, first, claim]);

  return status;
}

// useAwake reports whether the tab is shown, or was until a second ago.
function useAwake(): boolean {
  const [awake, setAwake] = useState(() => document.visibilityState === "visible");
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
