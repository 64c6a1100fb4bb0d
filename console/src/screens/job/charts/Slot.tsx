import { memo, type ReactNode, useRef } from "react";
import { UntrustedText } from "@/ui";
import { useDrawn } from "./use-drawn";

// The height of the canvas of a card, and of the whole card.
export const cardHeight = 168;
export const cardWhole = cardHeight + 58;

type Props = { name: string; children: (drawn: boolean) => ReactNode };

// Slot is the place of a chart. Only charts near the visible part of the page are in the document; the others are their
// name in a box of the same size, so that thousands of metrics cost little.
export function Slot({ name, children }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const { drawn, near } = useDrawn(host);
  return (
    <div ref={host} style={{ height: cardWhole }} className="min-w-0">
      {near ? children(drawn) : <Box name={name} />}
    </div>
  );
}

const Box = memo(({ name }: { name: string }) => (
  <article aria-label={name} className="h-full rounded-lg border bg-card px-3 py-2">
    <h3 className="truncate font-mono text-xs">
      <UntrustedText text={name} longest={256} />
    </h3>
  </article>
));
