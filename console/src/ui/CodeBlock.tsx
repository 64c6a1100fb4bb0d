import { cx } from "@/lib/cx";
import { CopyButton } from "./CopyButton";

// CodeBlock shows text in a fixed-width font, with a button that copies it.
export function CodeBlock({ code, label, className }: { code: string; label?: string; className?: string }) {
  return (
    <div className={cx("flex min-w-0 items-start gap-1 rounded-lg border bg-sunken py-1.5 pr-1.5 pl-3", className)}>
      <pre
        role="group"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
        tabIndex={0}
        aria-label={label}
        className="scroll-thin min-w-0 flex-1 overflow-x-auto py-0.5 font-mono text-xs leading-5"
      >
        {code}
      </pre>
      <CopyButton text={code} />
    </div>
  );
}
