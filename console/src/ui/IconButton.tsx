import type { ComponentProps, ReactNode } from "react";
import { cx } from "@/lib/cx";
import { Tooltip } from "./Tooltip";

type Props = Omit<ComponentProps<"button">, "children"> & {
  label: string;
  icon: ReactNode;
  keys?: string;
  tip?: boolean;
};

// IconButton is a button without text. Its label is its name for screen readers and its tooltip.
export function IconButton({ label, icon, keys, tip = true, className, ...rest }: Props) {
  const button = (
    <button
      type="button"
      aria-label={label}
      {...rest}
      className={cx(
        "inline-flex size-7 shrink-0 items-center justify-center rounded-md text-soft hover:bg-hover hover:text-ink",
        "disabled:opacity-40 disabled:pointer-events-none data-[state=open]:bg-hover data-[state=open]:text-ink",
        className,
      )}
    >
      {icon}
    </button>
  );
  return tip ? (
    <Tooltip text={label} keys={keys}>
      {button}
    </Tooltip>
  ) : (
    button
  );
}
