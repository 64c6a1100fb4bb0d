import type uPlot from "uplot";
import type { PlotEvents } from "./plot-options";

// plotKey handles a key in a chart that has the focus: the arrows move the cursor, Enter holds its point, plus and
// minus zoom around it, and Escape leaves the window. It reports whether the key is one of them.
export function plotKey(plot: uPlot, key: string, large: boolean, on: PlotEvents): boolean {
  const xs = plot.data[0];
  const last = xs.length - 1;
  if (last < 0) return false;
  const row = plot.cursor.idx ?? last;
  switch (key) {
    case "ArrowLeft":
      move(plot, Math.max(0, row - (large ? 10 : 1)));
      return true;
    case "ArrowRight":
      move(plot, Math.min(last, row + (large ? 10 : 1)));
      return true;
    case "Home":
      move(plot, 0);
      return true;
    case "End":
      move(plot, last);
      return true;
    case "Enter":
      on.hold(row);
      return true;
    case "+":
    case "=":
    case "-": {
      const { min, max } = plot.scales.x ?? {};
      if (min === undefined || max === undefined) return false;
      const window = zoomed(min, max, xs[row] ?? max, key === "-" ? 2 : 0.5);
      on.zoom(...window);
      return true;
    }
    case "Escape":
      on.reset();
      return true;
  }
  return false;
}

// zoomed returns a window of another width in which the center stays where it is.
export function zoomed(from: number, to: number, center: number, factor: number): [number, number] {
  return [center - (center - from) * factor, center + (to - center) * factor];
}

function move(plot: uPlot, row: number): void {
  const x = plot.data[0][row] ?? 0;
  plot.setCursor({ left: plot.valToPos(x, "x"), top: plot.over.clientHeight / 2 });
}
