import type { LineageEdge, LineageNode } from "./api";

// The measures of the drawing, in pixels.
export const box = { width: 208, height: 56, across: 72, down: 14 };

export type Placed = { node: LineageNode; x: number; y: number };
export type Line = { key: string; path: string };
export type Drawing = { nodes: Placed[]; lines: Line[]; width: number; height: number };

// draw places the nodes in columns by their distance from the root, what it was made from on the left. Within a column,
// a node stands near the middle of its neighbors in the column that is closer to the root.
export function draw(nodes: LineageNode[], edges: LineageEdge[]): Drawing {
  const columns = new Map<number, LineageNode[]>();
  for (const node of nodes) columns.set(node.distance, [...(columns.get(node.distance) ?? []), node]);
  const row = new Map<string, number>();
  const near = (node: LineageNode): number => {
    const rows = edges
      .filter((e) => e.source === node.key || e.target === node.key)
      .map((e) => row.get(e.source === node.key ? e.target : e.source))
      .filter((r) => r !== undefined);
    return rows.length === 0 ? 0 : rows.reduce((a, b) => a + b, 0) / rows.length;
  };
  for (const distance of [...columns.keys()].sort((a, b) => Math.abs(a) - Math.abs(b))) {
    const column = columns.get(distance) ?? [];
    const wanted = new Map(column.map((node) => [node.key, near(node)]));
    column.sort((a, b) => (wanted.get(a.key) ?? 0) - (wanted.get(b.key) ?? 0));
    column.forEach((node, i) => {
      row.set(node.key, i - (column.length - 1) / 2);
    });
  }
  const first = Math.min(0, ...columns.keys());
  const tallest = Math.max(1, ...[...columns.values()].map((c) => c.length));
  const height = tallest * (box.height + box.down) - box.down;
  const placed = [...columns.keys()]
    .sort((a, b) => a - b)
    .flatMap((distance) =>
      (columns.get(distance) ?? []).map((node) => ({
        node,
        x: (distance - first) * (box.width + box.across),
        y: height / 2 + (row.get(node.key) ?? 0) * (box.height + box.down) - box.height / 2,
      })),
    );
  const width = Math.max(0, ...placed.map((p) => p.x)) + box.width;
  return { nodes: placed, lines: linesOf(placed, edges), width, height };
}

function linesOf(placed: Placed[], edges: LineageEdge[]): Line[] {
  const at = new Map(placed.map((p) => [p.node.key, p]));
  return edges.flatMap((edge, i) => {
    const from = at.get(edge.source);
    const to = at.get(edge.target);
    if (!from || !to) return [];
    const [x1, y1] = [from.x + box.width, from.y + box.height / 2];
    const [x2, y2] = [to.x, to.y + box.height / 2];
    const bend = Math.max(box.across / 2, Math.abs(x2 - x1) / 2);
    return [
      {
        key: `${edge.source}-${edge.target}-${i}`,
        path: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`,
      },
    ];
  });
}

// pathOf returns the address of the screen of a node, or null if the node is not visible.
export function pathOf(node: LineageNode): string | null {
  if (!node.visible || !node.id) return null;
  const version = encodeURIComponent(node.version ?? "latest");
  switch (node.kind) {
    case "run":
      return `/runs/${node.id}/lineage`;
    case "dataset_version":
      return `/datasets/${node.id}/${version}?tab=lineage`;
    case "model_version":
      return `/models/${node.id}/${version}?tab=lineage`;
    case "revision":
      return `/deployments/${node.id}?tab=lineage&revision=${version}`;
    default:
      return null;
  }
}
