import { DropdownMenu as Radix } from "radix-ui";
import type { ReactNode } from "react";
import { cx } from "@/lib/cx";
import { Kbd } from "./Kbd";

type Props = {
  trigger: ReactNode;
  children: ReactNode;
  align?: "start" | "end";
  onOpenChange?: (open: boolean) => void;
};

// DropdownMenu opens a menu from its trigger, which must take a ref. Its children are MenuItem, MenuCheck, MenuLabel and
// MenuSeparator.
export function DropdownMenu({ trigger, children, align = "end", onOpenChange }: Props) {
  return (
    <Radix.Root onOpenChange={onOpenChange} modal={false}>
      <Radix.Trigger asChild>{trigger}</Radix.Trigger>
      <Radix.Portal>
        <Radix.Content
          align={align}
          sideOffset={4}
          collisionPadding={8}
          className="fade-in scroll-thin z-50 max-h-(--radix-dropdown-menu-content-available-height) min-w-44 overflow-y-auto rounded-lg border bg-card p-1 shadow-card"
        >
          {children}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}

const row =
  "flex min-h-7 items-center gap-2 rounded px-2 text-sm outline-none select-none data-disabled:opacity-45 data-highlighted:bg-hover";

type ItemProps = {
  onSelect?: () => void;
  icon?: ReactNode;
  keys?: string;
  danger?: boolean;
  disabled?: boolean;
  children: ReactNode;
  asChild?: boolean;
};

export function MenuItem({ onSelect, icon, keys, danger = false, disabled, children, asChild }: ItemProps) {
  const className = cx(row, danger ? "text-bad" : "text-ink");
  if (asChild) {
    return (
      <Radix.Item asChild disabled={disabled} onSelect={onSelect} className={className}>
        {children}
      </Radix.Item>
    );
  }
  return (
    <Radix.Item disabled={disabled} onSelect={onSelect} className={className}>
      {icon ? <span className="flex w-4 shrink-0 justify-center">{icon}</span> : null}
      <span className="min-w-0 flex-1 truncate">{children}</span>
      {keys ? <Kbd keys={keys} /> : null}
    </Radix.Item>
  );
}

type CheckProps = { checked: boolean; onChange: (checked: boolean) => void; disabled?: boolean; children: ReactNode };

// MenuCheck switches something and leaves the menu open.
export function MenuCheck({ checked, onChange, disabled, children }: CheckProps) {
  return (
    <Radix.CheckboxItem
      checked={checked}
      disabled={disabled}
      onCheckedChange={onChange}
      onSelect={(e) => e.preventDefault()}
      className={row}
    >
      <span
        className={cx(
          "flex size-3.5 shrink-0 items-center justify-center rounded-sm border",
          checked ? "border-accent bg-accent" : "border-edge",
        )}
      >
        <Radix.ItemIndicator>
          <svg viewBox="0 0 12 12" className="size-3 text-on-accent" aria-hidden="true">
            <path d="m2.5 6.5 2.2 2.2 4.8-5.2" fill="none" stroke="currentColor" strokeWidth="2" />
          </svg>
        </Radix.ItemIndicator>
      </span>
      {children}
    </Radix.CheckboxItem>
  );
}

export function MenuLabel({ children }: { children: ReactNode }) {
  return <Radix.Label className="px-2 pt-1 pb-0.5 text-2xs font-medium text-soft">{children}</Radix.Label>;
}

export function MenuSeparator() {
  return <Radix.Separator className="-mx-1 my-1 border-t" />;
}
