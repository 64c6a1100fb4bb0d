import { Popover as Radix } from "radix-ui";
import type { ReactNode } from "react";

type Props = {
  // label is the name of what opens, for screen readers.
  label: string;
  trigger: ReactNode;
  children: ReactNode;
  align?: "start" | "end";
};

// Popover opens controls beside its trigger, which must take a ref. Escape closes it and gives the focus back.
export function Popover({ label, trigger, children, align = "start" }: Props) {
  return (
    <Radix.Root>
      <Radix.Trigger asChild>{trigger}</Radix.Trigger>
      <Radix.Portal>
        <Radix.Content
          aria-label={label}
          align={align}
          sideOffset={4}
          collisionPadding={8}
          className="fade-in scroll-thin z-40 max-h-(--radix-popover-content-available-height) w-72 max-w-[calc(100vw-1rem)] overflow-y-auto rounded-lg border bg-card p-3 shadow-card outline-none"
        >
          {children}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}
