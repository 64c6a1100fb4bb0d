import type { TFunction } from "i18next";
import { type KeyboardEvent, type PointerEvent, useEffect, useId, useMemo, useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import { visible } from "@/lib/untrusted";
import type { Node } from "./api";
import { Legend } from "./Legend";
import { cellAt, type Kind, layout, move } from "./layout";
import { colorsOf, paint } from "./paint";

const keys = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"];
// Room for the frame of the active cell.
const edge = 2;

// Heatmap shows each GPU as a cell. The arrow keys move between cells, whose text stands below the map and is spoken.
export function Heatmap({ nodes, onOpen }: { nodes: readonly Node[]; onOpen: (node: Node) => void }) {
  const { t } = useTranslation("cluster");
  const help = useId();
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [active, setActive] = useState(-1);
  const [theme, setTheme] = useState("");
  const map = useMemo(() => layout(nodes, width - 2 * edge), [nodes, width]);

  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const watch = new ResizeObserver(() => setWidth(element.clientWidth));
    watch.observe(element);
    const themes = new MutationObserver(() => setTheme(document.documentElement.dataset.theme ?? ""));
    themes.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    setWidth(element.clientWidth);
    return () => {
      watch.disconnect();
      themes.disconnect();
    };
  }, []);

  // biome-ignore lint/correctness/useExhaustiveDependencies: another theme has other colours
  useEffect(() => {
    const element = canvas.current;
    const context = element?.getContext("2d");
    if (!element || !context) return;
    const scale = window.devicePixelRatio || 1;
    element.width = Math.max(1, Math.round(width * scale));
    element.height = Math.max(1, Math.round((map.height + 2 * edge) * scale));
    context.setTransform(scale, 0, 0, scale, edge * scale, edge * scale);
    paint(context, map.cells, active, colorsOf(element));
  }, [map, width, active, theme]);

  const cell = map.cells[active];
  const node = cell ? nodes[cell.node] : undefined;
  const point = (event: PointerEvent<HTMLElement>) => {
    const at = event.currentTarget.getBoundingClientRect();
    return cellAt(map.cells, event.clientX - at.left - edge, event.clientY - at.top - edge);
  };
  const press = (event: KeyboardEvent) => {
    if (event.key === "Enter" && node) onOpen(node);
    if (!keys.includes(event.key)) return;
    event.preventDefault();
    setActive(move(map.cells, active, event.key));
  };
  const spoken = node && cell ? describe(t, node, cell.gpu, cell.kind) : "";
  return (
    <div className="grid gap-3">
      <div
        ref={box}
        role="application"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: the arrow keys move between its cells
        tabIndex={0}
        aria-label={t("mapLabel", { count: nodes.length })}
        aria-describedby={help}
        onKeyDown={press}
        onFocus={() => setActive((at) => Math.max(at, 0))}
        onPointerMove={(event) => setActive(point(event))}
        onPointerUp={(event) => {
          const at = map.cells[point(event)];
          const target = at ? nodes[at.node] : undefined;
          if (target) onOpen(target);
        }}
        className="cursor-pointer touch-pan-y rounded"
      >
        <canvas ref={canvas} aria-hidden style={{ width: "100%", height: map.height + 2 * edge }} className="block" />
      </div>
      <p role="status" className="min-h-5 text-sm">
        {spoken || <span className="text-soft">{t("mapHint")}</span>}
      </p>
      <Legend />
      <p id={help} className="text-xs text-soft">
        {t("mapHelp")}
      </p>
    </div>
  );
}

function describe(t: TFunction, node: Node, gpu: number, kind: Kind): string {
  const name = visible(node.name, 64).text;
  const state = t(`states.${node.state}`, { defaultValue: node.state });
  if (node.gpus === 0) return t("cellCpu", { name, state });
  return t("cell", { name, gpu: gpu + 1, gpus: node.gpus, kind: t(`kind.${kind}`), state, free: node.gpus_free });
}
