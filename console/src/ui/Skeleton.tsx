import { cx } from "@/lib/cx";

export function Skeleton({ className }: { className?: string }) {
  return <span aria-hidden className={cx("skeleton block h-3.5", className)} />;
}

// SkeletonLines stands for a few lines or rows that are being read.
export function SkeletonLines({ lines = 4, className }: { lines?: number; className?: string }) {
  const widths = ["w-3/4", "w-1/2", "w-2/3", "w-5/6", "w-2/5"];
  return (
    <div aria-hidden className={cx("grid gap-3 py-2", className)}>
      {Array.from({ length: lines }, (_, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the lines are all the same
        <Skeleton key={at} className={widths[at % widths.length]} />
      ))}
    </div>
  );
}
