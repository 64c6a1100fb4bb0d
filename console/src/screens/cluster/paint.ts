import { type Cell, cellSize, type Kind } from "./layout";

type Colors = Record<Kind | "focus", string>;

export function colorsOf(element: Element): Colors {
  const style = getComputedStyle(element);
  const read = (name: string) => style.getPropertyValue(name).trim();
  return {
    held: read("--accent"),
    free: read("--edge"),
    closed: read("--warn"),
    lost: read("--bad"),
    cpu: read("--edge"),
    focus: read("--ink"),
  };
}

// paint draws the cells. Each kind has a form of its own: a full square is held, an empty one free, a square with a bar
// is closed for new work, a cross is lost, and a circle is a node without GPUs.
export function paint(context: CanvasRenderingContext2D, cells: readonly Cell[], active: number, colors: Colors): void {
  context.lineWidth = 1.5;
  for (const cell of cells) draw(context, cell, colors[cell.kind]);
  const focus = cells[active];
  if (!focus) return;
  context.strokeStyle = colors.focus;
  context.lineWidth = 2;
  context.strokeRect(focus.x - 1, focus.y - 1, cellSize + 2, cellSize + 2);
}

function draw(context: CanvasRenderingContext2D, { x, y, kind }: Cell, color: string): void {
  const end = cellSize - 1;
  context.fillStyle = color;
  context.strokeStyle = color;
  if (kind === "held") {
    context.fillRect(x, y, cellSize, cellSize);
    return;
  }
  context.beginPath();
  if (kind === "cpu") context.arc(x + cellSize / 2, y + cellSize / 2, cellSize / 2 - 1, 0, Math.PI * 2);
  else context.rect(x + 1, y + 1, end - 1, end - 1);
  if (kind === "closed") {
    context.moveTo(x + 3, y + cellSize / 2);
    context.lineTo(x + end - 2, y + cellSize / 2);
  }
  if (kind === "lost") {
    context.moveTo(x + 4, y + 4);
    context.lineTo(x + end - 3, y + end - 3);
    context.moveTo(x + end - 3, y + 4);
    context.lineTo(x + 4, y + end - 3);
  }
  context.stroke();
}
