import type { CSSProperties } from "react";
import { cx } from "@/lib/cx";
import type { Style } from "./ansi";
import { cssColor, legible, rgb } from "./color";

// pieceStyle returns how a piece of a line looks. A text always has a contrast of 4.5 to what is behind it.
export function pieceStyle(style: Style): { css: CSSProperties; classes: string } {
  return {
    css: colors(style),
    classes: cx(
      style.bold && "font-bold",
      style.dim && !style.color && "text-soft",
      style.italic && "italic",
      (style.underline || style.strike) && "underline-offset-2",
      style.underline && style.strike && "[text-decoration-line:underline_line-through]",
      style.underline && !style.strike && "underline",
      style.strike && !style.underline && "line-through",
    ),
  };
}

function colors({ color, background, inverse }: Style): CSSProperties {
  const [front, back] = inverse ? [background, color] : [color, background];
  if (back) return { backgroundColor: rgb(back), color: rgb(legible(front ?? [128, 128, 128], back)) };
  if (inverse) return { backgroundColor: "var(--ink)", color: "var(--card)" };
  return front ? { color: cssColor(front) } : {};
}
