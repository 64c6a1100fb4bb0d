import type uPlot from "uplot";
import type { XKind } from "./curve";
import type { Line } from "./plot-data";

// toCsv writes the rows of a chart: raw points, or buckets with their extremes.
export function toCsv(lines: readonly Line[], x: XKind, over?: string): string {
  const rows = lines.flatMap(({ name, curve }) =>
    curve.x.map((place, at) => [
      name,
      curve.firstStep[at],
      curve.lastStep[at],
      x === "time" ? new Date(place * 1000).toISOString() : place,
      curve.counts[at],
      curve.min[at],
      curve.mean[at],
      curve.max[at],
    ]),
  );
  const head = ["run", "first_step", "last_step", over ?? x, "points", "min", "mean", "max"];
  return `${[head, ...rows].map((row) => row.map(cell).join(",")).join("\r\n")}\r\n`;
}

// A spreadsheet would run a text that begins like a formula.
function cell(value: string | number | null | undefined): string {
  if (typeof value === "number") return String(value);
  const text = value ?? "";
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

// toPng draws a chart with its title on the background of a card.
export function toPng(plot: uPlot, title: string): Promise<Blob | null> {
  const ratio = devicePixelRatio;
  const head = 28 * ratio;
  const source = plot.ctx.canvas;
  const canvas = document.createElement("canvas");
  canvas.width = source.width;
  canvas.height = source.height + head;
  const style = getComputedStyle(document.documentElement);
  const ctx = canvas.getContext("2d");
  if (!ctx) return Promise.resolve(null);
  ctx.fillStyle = style.getPropertyValue("--card");
  ctx.fillRect(0, 0, canvas.width, canvas.height);
  ctx.fillStyle = style.getPropertyValue("--ink");
  ctx.font = `${13 * ratio}px ${getComputedStyle(document.body).fontFamily}`;
  ctx.fillText(title, 12 * ratio, 19 * ratio);
  ctx.drawImage(source, 0, head);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}
