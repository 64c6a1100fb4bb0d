export const rowHeight = 18;

// Browsers limit the height of an element to about 33 million pixels. Above 1.5 million lines, the height stays and the
// scrollbar is scaled.
const tallest = 1_500_000 * rowHeight;

export type Scale = {
  // full is the height of all lines; shown is the height of the element.
  full: number;
  shown: number;
  // end is the position of the first visible pixel when the last line is at the bottom.
  end: number;
  // One pixel of the scrollbar is this many pixels of lines.
  factor: number;
};

export function scaleOf(lines: number, height: number): Scale {
  const full = lines * rowHeight;
  const shown = Math.min(full, tallest);
  const end = Math.max(0, full - height);
  const travel = Math.max(0, shown - height);
  return { full, shown, end, factor: travel > 0 ? end / travel : 1 };
}

export type Range = { first: number; last: number };

// visible returns the indexes of the lines that are at least partly seen, with a few more on both sides.
export function visibleRange(position: number, height: number, lines: number, more = 8): Range {
  const first = Math.max(0, Math.floor(position / rowHeight) - more);
  const last = Math.min(lines - 1, Math.ceil((position + height) / rowHeight) + more);
  return { first, last };
}

// centered returns the position that shows a line a third below the top.
export function centered(index: number, height: number, scale: Scale): number {
  return Math.min(scale.end, Math.max(0, index * rowHeight - height / 3));
}
