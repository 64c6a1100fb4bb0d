import { type RefObject, useEffect, useId, useState } from "react";
import { Budget } from "./budget";

// More canvases than this at the same time would make the page slow.
const budget = new Budget(12);

// One observer watches all charts, because a run may have thousands.
const told = new WeakMap<Element, (near: boolean) => void>();
let observer: IntersectionObserver | undefined;

function watch(element: Element, tell: (near: boolean) => void): () => void {
  observer ??= new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) told.get(target)?.(isIntersecting);
    },
    { rootMargin: "40px 0px" },
  );
  told.set(element, tell);
  observer.observe(element);
  return () => {
    observer?.unobserve(element);
    told.delete(element);
  };
}

// useDrawn reports whether a chart is near the visible part of the page, and whether it may have a canvas now.
export function useDrawn(host: RefObject<HTMLElement | null>): { drawn: boolean; near: boolean } {
  const id = useId();
  const [drawn, setDrawn] = useState(false);
  const [near, setNear] = useState(false);
  useEffect(() => {
    const element = host.current;
    if (!element) return;
    const leave = watch(element, (is) => {
      setNear(is);
      if (is) budget.enter(id, setDrawn);
      else budget.leave(id);
    });
    return () => {
      leave();
      budget.leave(id);
    };
  }, [id, host]);
  return { drawn, near };
}
