import type { LogLine } from "./store";

// Lines is what the view shows: all lines of a log, or those that match. Places are counted from 0.
export type Lines = {
  count: number;
  // version changes when a line does.
  version: number;
  // at returns undefined for a line that has not been read.
  at: (index: number) => LogLine | undefined;
  // indexOf returns the index of the last line whose number is at most seq, or -1.
  indexOf: (seq: number) => number;
  // need reads the lines of a range that are missing.
  need: (first: number, last: number) => void;
};

// placeOf returns the place of the last line whose number is at most seq.
export function placeOf(lines: readonly LogLine[], seq: number): number {
  let low = 0;
  let high = lines.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((lines[middle]?.seq ?? 0) <= seq) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
