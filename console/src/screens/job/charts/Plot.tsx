import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { plotKey } from "./keys";
import { type PlotEvents, type PlotSettings, plotOptions } from "./plot-options";

type Props = {
  settings: PlotSettings;
  events: PlotEvents;
  data: uPlot.AlignedData;
  height: number;
  // shape changes when the chart must be built again; other changes only bring new data.
  shape: string;
  label: string;
  onReady?: (plot: uPlot | null) => void;
};

// Plot is a canvas with the lines of a chart. It follows the width of its container.
export function Plot({ settings, events, data, height, shape, label, onReady }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef({ settings, events, data, onReady });
  latest.current = { settings, events, data, onReady };

  // biome-ignore lint/correctness/useExhaustiveDependencies: shape stands for the settings
  useEffect(() => {
    const element = host.current;
    if (!element) return;
    const now = () => latest.current;
    const on: PlotEvents = {
      zoom: (from, to) => now().events.zoom(from, to),
      reset: () => now().events.reset(),
      cursor: (row, own) => now().events.cursor(row, own),
      hold: (row) => now().events.hold(row),
      bad: () => now().events.bad(),
    };
    const options = plotOptions(now().settings, on, Math.max(120, element.clientWidth), height);
    const made = new uPlot(options, now().data, element);
    plot.current = made;
    now().onReady?.(made);
    const watch = new ResizeObserver(() => {
      if (element.clientWidth > 0 && element.clientWidth !== made.width)
        made.setSize({ width: element.clientWidth, height });
    });
    watch.observe(element);
    return () => {
      watch.disconnect();
      plot.current = null;
      now().onReady?.(null);
      made.destroy();
    };
  }, [shape, height]);

  const first = useRef(true);
  useEffect(() => {
    if (first.current) first.current = false;
    else plot.current?.setData(data);
  }, [data]);

  return (
    <div
      ref={host}
      role="img"
      aria-label={label}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: the cursor of the chart can be moved by keys
      tabIndex={0}
      onKeyDown={(event) => {
        if (event.metaKey || event.ctrlKey || event.altKey || !plot.current) return;
        if (plotKey(plot.current, event.key, event.shiftKey, events)) event.preventDefault();
      }}
      style={{ height }}
      className="min-w-0 overflow-hidden rounded"
    />
  );
}
