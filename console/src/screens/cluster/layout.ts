import type { Node } from "./api";

export type Kind = "held" | "free" | "closed" | "lost" | "cpu";

// A cell of the map: one GPU of a node, or the node itself if it has none.
export type Cell = { node: number; gpu: number; kind: Kind; x: number; y: number };

export const cellSize = 14;
const gap = 3;
const between = 10;
const perRow = 8;
const step = cellSize + gap;

export type Layout = { cells: Cell[]; height: number };

// layout places the GPUs of each node in a block, in rows of eight, and the blocks in lines as wide as the map. The API
// counts the held GPUs of a node but does not name them, so they come first.
export function layout(nodes: readonly Node[], width: number): Layout {
  const cells: Cell[] = [];
  let x = 0;
  let y = 0;
  let lineHeight = 0;
  nodes.forEach((node, at) => {
    const count = Math.max(1, node.gpus);
    const columns = Math.min(perRow, count);
    const blockWidth = columns * step - gap;
    const blockHeight = Math.ceil(count / perRow) * step - gap;
    if (x > 0 && x + blockWidth > width) {
      x = 0;
      y += lineHeight + between;
      lineHeight = 0;
    }
    for (let gpu = 0; gpu < count; gpu++) {
      const kind = kindOf(node, gpu);
      cells.push({ node: at, gpu, kind, x: x + (gpu % perRow) * step, y: y + Math.floor(gpu / perRow) * step });
    }
    lineHeight = Math.max(lineHeight, blockHeight);
    x += blockWidth + between;
  });
  return { cells, height: nodes.length === 0 ? 0 : y + lineHeight };
}

export function kindOf(node: Node, gpu: number): Kind {
  if (node.state === "lost") return "lost";
  if (gpu < node.gpus - node.gpus_free) return "held";
  if (node.state !== "ready") return "closed";
  return node.gpus === 0 ? "cpu" : "free";
}

export function cellAt(cells: readonly Cell[], x: number, y: number): number {
  return cells.findIndex((c) => x >= c.x && x < c.x + step && y >= c.y && y < c.y + step);
}

// move returns the cell that an arrow key leads to: the next one in the order, or the nearest one in the next line.
export function move(cells: readonly Cell[], from: number, key: string): number {
  const cell = cells[from];
  if (!cell) return cells.length > 0 ? 0 : -1;
  const clamp = (at: number) => Math.max(0, Math.min(cells.length - 1, at));
  if (key === "ArrowRight") return clamp(from + 1);
  if (key === "ArrowLeft") return clamp(from - 1);
  if (key === "Home") return 0;
  if (key === "End") return cells.length - 1;
  if (key !== "ArrowDown" && key !== "ArrowUp") return from;
  const down = key === "ArrowDown";
  let best = from;
  let nearest: [number, number] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  cells.forEach((other, at) => {
    const dy = down ? other.y - cell.y : cell.y - other.y;
    if (dy <= 0) return;
    const dx = Math.abs(other.x - cell.x);
    if (dy < nearest[0] || (dy === nearest[0] && dx < nearest[1])) {
      nearest = [dy, dx];
      best = at;
    }
  });
  return best;
}
