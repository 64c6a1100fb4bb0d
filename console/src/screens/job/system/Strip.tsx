import { useEffect, useRef } from "react";
import { useTheme } from "@/theme/theme";

// Strip draws one row of the heat map: the fuller, the stronger the colour.
export function Strip({
  cells,
  full,
  onHover,
}: {
  cells: readonly (number | null)[];
  full: number;
  onHover: (share: number | null) => void;
}) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const { shown } = useTheme();
  // biome-ignore lint/correctness/useExhaustiveDependencies: the colours follow the theme
  useEffect(() => {
    const element = canvas.current;
    const ctx = element?.getContext("2d");
    if (!element || !ctx) return;
    const style = getComputedStyle(document.documentElement);
    element.width = cells.length;
    element.height = 1;
    for (const [at, cell] of cells.entries()) {
      if (cell === null) continue;
      ctx.globalAlpha = 1;
      ctx.fillStyle = style.getPropertyValue("--hover");
      ctx.fillRect(at, 0, 1, 1);
      ctx.globalAlpha = full > 0 ? Math.min(1, Math.max(0, cell / full)) : 0;
      ctx.fillStyle = style.getPropertyValue("--accent");
      ctx.fillRect(at, 0, 1, 1);
    }
  }, [cells, full, shown]);
  return (
    <canvas
      ref={canvas}
      aria-hidden
      className="block h-3.5 w-full rounded-xs bg-sunken [image-rendering:pixelated]"
      onMouseMove={(event) => {
        const box = event.currentTarget.getBoundingClientRect();
        onHover((event.clientX - box.left) / box.width);
      }}
      onMouseLeave={() => onHover(null)}
    />
  );
}
