import { cx } from "@/lib/cx";
import { CopyButton } from "./CopyButton";

// CopyId shows an id or a digest in a fixed-width font, with a button that copies all of it. short cuts what is shown.
export function CopyId({ id, short, className }: { id: string; short?: number; className?: string }) {
  const shown = short !== undefined && id.length > short ? `${id.slice(0, short)}…` : id;
  return (
    <span className={cx("inline-flex min-w-0 items-center gap-0.5", className)}>
      <span className="truncate font-mono text-xs" title={id}>
        {shown}
      </span>
      <CopyButton text={id} />
    </span>
  );
}
