import { lazy, Suspense, useSyncExternalStore } from "react";

// The messages load with the first one: most visits need none.
const Messages = lazy(() => import("./ToasterMessages"));
const listeners = new Set<() => void>();
let wanted = false;
let ready = () => {};
const mounted = new Promise<void>((resolve) => {
  ready = resolve;
});

type Kind = "success" | "error" | "message";
type Options = { description?: string; action?: { label: string; onClick: () => void } };

function show(kind: Kind, text: string, options?: Options): void {
  wanted = true;
  for (const tell of listeners) tell();
  void Promise.all([import("sonner"), mounted]).then(([sonner]) => sonner.toast[kind](text, options));
}

// toast shows a message at the edge of the page for a few seconds. What must not be missed belongs into the page.
export const toast = {
  success: (text: string, options?: Options) => show("success", text, options),
  error: (text: string, options?: Options) => show("error", text, options),
  message: (text: string, options?: Options) => show("message", text, options),
};

export function Toaster() {
  const on = useSyncExternalStore(
    (tell) => {
      listeners.add(tell);
      return () => listeners.delete(tell);
    },
    () => wanted,
  );
  return <Suspense fallback={null}>{on ? <Messages onReady={ready} /> : null}</Suspense>;
}
