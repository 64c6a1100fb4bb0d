import { type RefObject, useCallback, useEffect, useLayoutEffect, useRef, useState } from "react";
import { rowHeight, type Scale, scaleOf } from "./position";

export type Scroll = {
  ref: RefObject<HTMLDivElement | null>;
  // position is the distance of the top of the view from the first line, in pixels of lines.
  position: number;
  height: number;
  scale: Scale;
  to: (position: number) => void;
  onScroll: () => void;
};

// useScroll connects the position of a scrolling element with that in a log which may be higher than an element can be.
export function useScroll(lines: number, moved: (position: number, scale: Scale) => void): Scroll {
  const ref = useRef<HTMLDivElement>(null);
  const [height, setHeight] = useState(600);
  const [position, setPosition] = useState(0);
  const scale = scaleOf(lines, height);
  const now = useRef({ scale, position, moved, set: 0 });
  Object.assign(now.current, { scale, moved });

  useLayoutEffect(() => {
    const element = ref.current;
    if (!element) return;
    const measure = () => setHeight(element.clientHeight || 600);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  const to = useCallback((wanted: number) => {
    const element = ref.current;
    const { scale } = now.current;
    const next = Math.min(scale.end, Math.max(0, wanted));
    now.current.position = next;
    setPosition(next);
    if (!element) return;
    element.scrollTop = next / scale.factor;
    now.current.set = element.scrollTop;
  }, []);

  const onScroll = useCallback(() => {
    const element = ref.current;
    // The element may be some pixels off what was set, so the event that this causes is ignored.
    if (!element || Math.abs(element.scrollTop - now.current.set) < 1) return;
    now.current.set = element.scrollTop;
    const { scale, moved } = now.current;
    // When the element grows, the browser scrolls back to the new end before the new height is known here.
    const atEnd = element.scrollHeight - element.clientHeight - element.scrollTop < 2;
    const next = atEnd ? scale.end : Math.min(scale.end, element.scrollTop * scale.factor);
    now.current.position = next;
    setPosition(next);
    moved(next, scale);
  }, []);

  // With a scaled scrollbar, the wheel still moves by as many lines as elsewhere.
  useEffect(() => {
    const element = ref.current;
    if (!element) return;
    const onWheel = (event: WheelEvent) => {
      const { scale, position, moved } = now.current;
      if (scale.factor <= 1.001 || event.ctrlKey || event.shiftKey || event.deltaY === 0) return;
      event.preventDefault();
      to(position + event.deltaY * (event.deltaMode === 1 ? rowHeight : 1));
      moved(now.current.position, scale);
    };
    element.addEventListener("wheel", onWheel, { passive: false });
    return () => element.removeEventListener("wheel", onWheel);
  }, [to]);

  return { ref, position: Math.min(position, scale.end), height, scale, to, onScroll };
}
