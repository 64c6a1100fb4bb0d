import { type KeyboardEvent, type Ref, useCallback, useEffect, useImperativeHandle, useLayoutEffect } from "react";
import { useTranslation } from "react-i18next";
import { cx } from "@/lib/cx";
import { useFormats } from "@/lib/prefs";
import { LogLineRow } from "./LogLineRow";
import type { Lines } from "./lines";
import { centered, rowHeight, visibleRange } from "./position";
import { useScroll } from "./use-scroll";
import type { LogsView } from "./view";

export type LogViewHandle = { show: (index: number) => void; focus: () => void };

type Props = {
  lines: Lines;
  view: LogsView;
  selected: number | null;
  // marked reports whether a line matches the search.
  marked: (seq: number) => boolean;
  onSelect: (seq: number) => void;
  // While following, the view stays at the last line.
  following: boolean;
  onFollow: (on: boolean) => void;
  handle: Ref<LogViewHandle>;
};

export function LogView({ lines, view, selected, marked, onSelect, following, onFollow, handle }: Props) {
  const { t } = useTranslation("logs");
  const { ref, position, height, scale, to, onScroll } = useScroll(lines.count, (next, { end }) =>
    onFollow(next >= end - rowHeight / 2),
  );
  const { first, last } = visibleRange(position, height, lines.count);
  const time = useTime();
  const atEnd = position >= scale.end - 1;

  useLayoutEffect(() => {
    if (following) to(scale.end);
  }, [following, scale.end, to]);

  // A version is a change of the lines. Some of them may be missing now.
  // biome-ignore lint/correctness/useExhaustiveDependencies: see above
  useEffect(() => lines.need(first, last), [lines.need, first, last, lines.version]);

  useImperativeHandle(
    handle,
    () => ({
      show: (index) => to(centered(index, height, scale)),
      focus: () => ref.current?.focus({ preventScroll: true }),
    }),
    [to, height, scale, ref],
  );

  const onKeyDown = useCallback(
    (event: KeyboardEvent) => {
      if (event.metaKey || event.ctrlKey || event.altKey) return;
      const page = height - rowHeight;
      const steps: Record<string, number> = {
        ArrowUp: position - rowHeight,
        ArrowDown: position + rowHeight,
        PageUp: position - page,
        PageDown: position + page,
        " ": position + page,
        Home: 0,
        End: scale.end,
      };
      const next = steps[event.key];
      if (next === undefined || event.target !== event.currentTarget) return;
      event.preventDefault();
      to(next);
      onFollow(next >= scale.end - rowHeight / 2);
    },
    [height, position, scale.end, to, onFollow],
  );

  const rows = [];
  for (let index = first; index <= last; index++) {
    const line = lines.at(index);
    const seq = line?.seq ?? 0;
    rows.push(
      <LogLineRow
        key={index}
        seq={seq}
        line={line}
        view={view}
        time={time}
        selected={seq !== 0 && seq === selected}
        found={seq !== 0 && marked(seq)}
        onSelect={onSelect}
      />,
    );
  }

  return (
    <section
      ref={ref}
      aria-label={t("title")}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
      tabIndex={0}
      onScroll={onScroll}
      onKeyDown={onKeyDown}
      className="scroll-thin absolute inset-0 overflow-auto bg-card font-mono text-xs leading-[18px] [overflow-anchor:none] focus-visible:-outline-offset-2"
    >
      <div className="relative w-full" style={{ height: scale.shown }}>
        <div
          className={cx("absolute left-0 min-w-full", view.wrap ? "w-full" : "w-max")}
          style={view.wrap && atEnd ? { bottom: 0 } : { top: position / scale.factor - position + first * rowHeight }}
        >
          {rows}
        </div>
      </div>
    </section>
  );
}

// useTime returns a function that formats the time of a line.
export function useTime(): (at: string) => string {
  const { tag, zone } = useFormats();
  const format = useFormat(tag, zone);
  return useCallback((at) => format.format(Date.parse(at)), [format]);
}

const formats = new Map<string, Intl.DateTimeFormat>();

function useFormat(tag: string, zone: string | undefined): Intl.DateTimeFormat {
  const key = `${tag} ${zone ?? ""}`;
  const format =
    formats.get(key) ??
    new Intl.DateTimeFormat(tag, {
      year: "numeric",
      month: "2-digit",
      day: "2-digit",
      hour: "2-digit",
      minute: "2-digit",
      second: "2-digit",
      fractionalSecondDigits: 3,
      hour12: false,
      timeZone: zone,
    });
  formats.set(key, format);
  return format;
}
