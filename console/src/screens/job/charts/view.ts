import { oneOf, text } from "@/lib/search";
import type { XKind } from "./curve";

export const xKinds = ["step", "relative", "time", "metric"] as const satisfies readonly XKind[];

// The part of the address that is about the charts. over is the metric of the x axis. from and to are the
// window: steps, seconds since the start, a time, or values of that metric.
export type ChartView = {
  key?: string;
  x?: XKind;
  over?: string;
  smooth?: number;
  logx?: boolean;
  logy?: boolean;
  from?: number;
  to?: number;
};

export function chartView(search: Record<string, unknown>): ChartView {
  const kind = oneOf(search.x, xKinds);
  const over = kind === "metric" ? text(search.over, 1024) : undefined;
  const x = kind === "metric" && over === undefined ? undefined : kind;
  const [from, to] = [number(search.from), number(search.to)];
  const window = from !== undefined && to !== undefined && from < to ? { from, to } : {};
  return {
    key: text(search.key, 200),
    x: x === "step" ? undefined : x,
    over,
    smooth: weight(search.smooth),
    logx: search.logx === true && x !== "time" ? true : undefined,
    logy: search.logy === true ? true : undefined,
    ...window,
  };
}

// countScales returns how many of the scales are not as they are at first.
export function countScales({ x = "step", smooth = 0, logx, logy }: ChartView): number {
  return [x !== "step", smooth > 0, logx, logy].filter(Boolean).length;
}

function weight(value: unknown): number | undefined {
  const n = number(value);
  return n !== undefined && n > 0 && n <= 0.99 ? Math.round(n * 100) / 100 : undefined;
}

function number(value: unknown): number | undefined {
  return typeof value === "number" && Number.isFinite(value) ? value : undefined;
}

// toWindow turns the window of the address into that of the API. Steps are whole numbers, and a window that a user draws
// includes the points at its edges.
export function toWindow({ x = "step", from, to }: ChartView, origin: number): { from?: string; to?: string } {
  if (from === undefined || to === undefined) return {};
  if (x === "step") return { from: String(Math.max(0, Math.floor(from))), to: String(Math.max(0, Math.ceil(to))) };
  if (x === "metric") return { from: String(from), to: String(to) };
  const start = x === "relative" ? origin : 0;
  const time = (seconds: number) => new Date(start + seconds * 1000).toISOString();
  return { from: time(from), to: time(to) };
}

// axisOf returns what the API divides into buckets.
export function axisOf({ x = "step", over }: ChartView): string {
  if (x === "metric") return over ?? "step";
  return x === "step" ? "step" : "time";
}
