import { useRouter } from "@tanstack/react-router";
import { useEffect, useRef } from "react";
import { allNav } from "./nav";
import type { Overlay } from "./Shell";

const chordTime = 1200;

// useKeys handles the keys of the whole console: Cmd-K or Ctrl-K, "?", "/", "c" and "g" with the key of a screen. Keys in text
// fields and in dialogs belong to them.
export function useKeys(open: (overlay: Overlay) => void): void {
  const router = useRouter();
  const pending = useRef(0);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        open("palette");
        return;
      }
      if (event.metaKey || event.ctrlKey || event.altKey || event.defaultPrevented || busy(event.target)) return;
      if (event.timeStamp - pending.current < chordTime) {
        pending.current = 0;
        const entry = allNav().find((e) => e.key === event.key);
        if (entry) {
          event.preventDefault();
          void router.navigate({ to: entry.to });
        }
        return;
      }
      if (event.key === "g") pending.current = event.timeStamp;
      if (event.key === "?") open("keys");
      if (event.key === "c") void router.navigate({ to: "/submit" });
      if (event.key === "/") {
        const filter = document.querySelector<HTMLInputElement>("#main [data-filter]");
        if (!filter) return;
        event.preventDefault();
        filter.focus();
        filter.select();
      }
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, [router, open]);
}

function busy(target: EventTarget | null): boolean {
  if (!(target instanceof Element)) return false;
  return target.closest("input,textarea,select,[contenteditable],[role=dialog],[role=menu],[role=listbox]") !== null;
}
