import { Tooltip as Radix } from "radix-ui";
import type { ReactNode } from "react";
import { Kbd } from "./Kbd";

// TooltipProvider is around everything that has a Tooltip.
export function TooltipProvider({ children }: { children: ReactNode }) {
  return <Radix.Provider>{children}</Radix.Provider>;
}

// Tooltip explains the element inside it, which must take a ref and can have the focus.
export function Tooltip({ text, keys, children }: { text: ReactNode; keys?: string; children: ReactNode }) {
  return (
    <Radix.Root delayDuration={350}>
      <Radix.Trigger asChild>{children}</Radix.Trigger>
      <Radix.Portal>
        <Radix.Content
          sideOffset={5}
          collisionPadding={8}
          className="fade-in z-50 flex max-w-72 items-center gap-2 rounded-md bg-ink px-2 py-1 text-xs text-paper shadow-card"
        >
          {text}
          {keys ? <Kbd keys={keys} inverted /> : null}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}
