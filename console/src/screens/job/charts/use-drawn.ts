import { type RefObject, useEffect, useId, useState } from "react";
import { Budget } from "./budget";

// More canvases than this at the same time would make the page slow.
const budget = new Budget(12);

// useDrawn reports whether a chart is near the visible part of the page, and whether it may have a canvas now.
export function useDrawn(host: RefObject<HTMLElement | null>): { drawn: boolean; near: boolean } {
  const id = useId();
  const [drawn, setDrawn] = useState(false);
  const [near, setNear] = useState(false);
  useEffect(() => {
    const element = host.current;
    if (!element) return;
    const watch = new IntersectionObserver(
      (entries) => {
        const is = entries.at(-1)?.isIntersecting === true;
        setNear(is);
        if (is) budget.enter(id, setDrawn);
        else budget.leave(id);
      },
      { rootMargin: "40px 0px" },
    );
    watch.observe(element);
    return () => {
      watch.disconnect();
      budget.leave(id);
    };
  }, [id, host]);
  return { drawn, near };
}
