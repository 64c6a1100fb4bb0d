import { finite } from "../charts/number";
import type { Hardware } from "./hardware";

// What the rows can show. A share is of the most that is possible; other values of the most that was measured.
export const measures = ["util", "mem", "power", "temp", "cpu", "net_rx", "net_tx", "disk_read", "disk_write"] as const;
export type Measure = string;

export type HeatRow = {
  node: string;
  // The name of the GPU, or null for the node itself.
  gpu: string | null;
  // The mean of each part of the time; null where there is no sample.
  cells: (number | null)[];
  latest: number | null;
  mean: number | null;
  max: number | null;
  // The value at full colour.
  full: number;
};

export type Heat = { rows: HeatRow[]; from: number; to: number };

// available returns the measures that a run has, known ones first.
export function available(series: readonly Hardware[]): string[] {
  const keys = new Set(series.map((s) => s.key));
  keys.delete("mem_total");
  const known = measures.filter((m) => keys.delete(m));
  return [...known, ...[...keys].sort()];
}

// heat divides the time of all samples into columns, so that all rows have the same time axis.
export function heat(series: readonly Hardware[], measure: string, columns: number): Heat {
  const rows = series.filter((s) => s.key === measure);
  const times = rows.flatMap((s) => [s.points[0], s.points.at(-1)].flatMap((p) => (p?.ts ? [Date.parse(p.ts)] : [])));
  const from = times.length > 0 ? Math.min(...times) : 0;
  const to = times.length > 0 ? Math.max(...times) : 0;
  const all = rows.map((s) => toRow(s, totalOf(series, s), from, to, columns));
  const most = Math.max(0, ...all.map((row) => row.max ?? 0));
  const shown = all.map((row) => ({ ...row, full: row.full > 0 ? row.full : most }));
  return { rows: shown.sort((a, b) => order(a.node, b.node) || order(a.gpu ?? "", b.gpu ?? "")), from, to };
}

function toRow(s: Hardware, full: number, from: number, to: number, columns: number): HeatRow {
  const sums = new Array<number>(columns).fill(0);
  const counts = new Array<number>(columns).fill(0);
  let sum = 0;
  let count = 0;
  let max: number | null = null;
  for (const point of s.points) {
    const value = finite(point.value);
    if (value === null || !point.ts) continue;
    const share = to > from ? (Date.parse(point.ts) - from) / (to - from) : 0;
    const at = Math.min(columns - 1, Math.max(0, Math.floor(share * columns)));
    sums[at] = (sums[at] ?? 0) + value;
    counts[at] = (counts[at] ?? 0) + 1;
    sum += value;
    count++;
    max = max === null ? value : Math.max(max, value);
  }
  return {
    node: s.node ?? "",
    gpu: s.gpu,
    cells: filled(sums.map((total, at) => (counts[at] ? total / (counts[at] ?? 1) : null))),
    latest: finite(s.points.at(-1)?.value),
    mean: count > 0 ? sum / count : null,
    max,
    full,
  };
}

// filled repeats a value in a few columns without a sample: the columns may be narrower than the time between samples.
function filled(cells: (number | null)[]): (number | null)[] {
  const known = cells.filter((cell) => cell !== null).length;
  const reach = known > 0 ? Math.ceil((cells.length / known) * 1.5) : 0;
  let last = -1;
  return cells.map((cell, at) => {
    if (cell !== null) last = at;
    return cell ?? (last >= 0 && at - last <= reach ? (cells[last] ?? null) : null);
  });
}

// totalOf returns what full use of a series is: 100 percent, or the memory of its device; 0 if it is not known.
function totalOf(all: readonly Hardware[], s: Hardware): number {
  if (s.key === "util" || s.key === "cpu") return 100;
  if (s.key !== "mem") return 0;
  const total = all.find((o) => o.key === "mem_total" && o.node === s.node && o.gpu === s.gpu);
  return finite(total?.points.at(-1)?.value) ?? 0;
}

// order compares names with numbers, such as node-2 and node-10.
const collator = new Intl.Collator("en", { numeric: true });
const order = (a: string, b: string) => collator.compare(a, b);
