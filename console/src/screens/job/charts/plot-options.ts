import uPlot from "uplot";
import { axisNumber, axisTexts } from "./axis";
import type { XKind } from "./curve";
import { column, columnsPerLine, type Line } from "./plot-data";

export type PlotSettings = {
  lines: readonly Line[];
  x: XKind;
  logX: boolean;
  logY: boolean;
  smoothing: number;
  window: readonly [number, number] | null;
  sync: string;
  tag: string;
  zone: string | undefined;
};

export type PlotEvents = {
  zoom: (from: number, to: number) => void;
  reset: () => void;
  // cursor is called with the row under the cursor, or null. own is false if the cursor is in another chart.
  cursor: (row: number | null, own: boolean) => void;
  // hold is called with the row under the cursor when it is clicked.
  hold: (row: number) => void;
  // bad returns where NaN and infinities are.
  bad: () => readonly number[];
};

type Theme = { soft: string; line: string; warn: string };

// plotOptions describes a chart for uPlot. Dragging selects a window, a double click leaves it.
export function plotOptions(s: PlotSettings, on: PlotEvents, width: number, height: number): uPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const css = (name: string) => style.getPropertyValue(name).trim();
  const theme: Theme = { soft: css("--soft"), line: css("--line"), warn: css("--warn") };
  const axis = { stroke: theme.soft, font: `11px ${getComputedStyle(document.body).fontFamily}` };
  const grid = { stroke: theme.line, width: 1 };
  // A logarithmic axis has a line for each power of ten only.
  const powers: uPlot.Axis.Filter = (_, splits) => splits.map((v) => (Number.isInteger(Math.log10(v)) ? v : null));
  return {
    width,
    height,
    legend: { show: false },
    padding: [8, 10, 0, 0],
    scales: {
      x: {
        time: false,
        distr: s.logX ? 3 : 1,
        range: (_, min, max) => (s.window as [number, number] | null) ?? xRange(min, max, s.logX),
      },
      y: s.logY
        ? { distr: 3, range: (_, min, max) => (min === null ? [1, 10] : uPlot.rangeLog(min, max, 10, false)) }
        : {},
    },
    series: [{}, ...s.lines.flatMap((line) => series(line, s.smoothing))],
    bands: s.lines.map((line, at) => ({
      series: [at * columnsPerLine + column.max, at * columnsPerLine + column.min],
      fill: `${line.color}22`,
    })),
    axes: [
      {
        ...axis,
        grid: { show: false },
        ticks: { ...grid, size: 4 },
        size: 26,
        space: 64,
        values: (_, v) => axisTexts(v, s.x, s.tag, s.zone),
      },
      {
        ...axis,
        grid: s.logY ? { ...grid, filter: powers } : grid,
        ticks: { show: false },
        size: 54,
        space: 28,
        values: (_, v) => v.map((n) => (n === null ? "" : axisNumber(n, s.tag))),
      },
    ],
    cursor: {
      drag: { x: true, y: false, setScale: false, dist: 4 },
      points: { size: 6 },
      sync: {
        key: s.sync,
        setSeries: false,
        scales: ["x", null],
        filters: { pub: (type) => type === "mousemove" || type === "mouseleave" },
      },
      bind: {
        dblclick: () => () => {
          on.reset();
          return null;
        },
      },
    },
    hooks: {
      // The click of cursor.bind is that of a legend. uPlot keeps the click that ends a drag from the chart.
      init: [
        (u) =>
          u.over.addEventListener("click", () => {
            const { idx } = u.cursor;
            if (idx !== null && idx !== undefined) on.hold(idx);
          }),
      ],
      setSelect: [
        (u) => {
          if (u.select.width < 4) return;
          const [from, to] = [u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x")];
          u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          on.zoom(from, to);
        },
      ],
      setCursor: [(u) => on.cursor(u.cursor.idx ?? null, u.cursor.event !== undefined && u.cursor.event !== null)],
      draw: [(u) => drawBad(u, on.bad(), theme.warn)],
    },
  };
}

function series({ name, color, dash }: Line, smoothing: number): uPlot.Series[] {
  const edge: uPlot.Series = { width: 0, points: { show: false } };
  return [
    edge,
    edge,
    { label: name, stroke: color, dash, width: 1.5, alpha: smoothing > 0 ? 0.25 : 1, points: { size: 4, fill: color } },
    { label: name, stroke: color, dash, width: 1.75, points: { show: false } },
  ];
}

function xRange(min: number | null, max: number | null, log: boolean): [number, number] {
  if (min === null || max === null) return log ? [1, 10] : [0, 1];
  if (log) return min === max ? [min / 2, max * 2] : [min, max];
  return min === max ? [min - 1, max + 1] : [min, max];
}

// drawBad draws a triangle at the lower edge for each place with NaN or an infinity.
function drawBad(u: uPlot, places: readonly number[], color: string): void {
  const { ctx, bbox } = u;
  const size = 4 * devicePixelRatio;
  const base = bbox.top + bbox.height;
  ctx.save();
  ctx.fillStyle = color;
  let before = Number.NEGATIVE_INFINITY;
  for (const place of places) {
    const x = u.valToPos(place, "x", true);
    if (x < bbox.left || x > bbox.left + bbox.width || x - before < 1) continue;
    before = x;
    ctx.beginPath();
    ctx.moveTo(x - size, base);
    ctx.lineTo(x + size, base);
    ctx.lineTo(x, base - 1.6 * size);
    ctx.fill();
  }
  ctx.restore();
}
