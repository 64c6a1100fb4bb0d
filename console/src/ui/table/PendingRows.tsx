import { cx } from "@/lib/cx";
import { Skeleton } from "../Skeleton";

const widths = ["w-16", "w-40", "w-20", "w-24", "w-12"];

// PendingRows stand for the rows that are being read.
export function PendingRows({ template, count }: { template: string; count: number }) {
  return (
    <div aria-hidden>
      {Array.from({ length: 8 }, (_, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the rows are all the same
        <div key={at} style={{ gridTemplateColumns: template }} className="grid h-8 items-center pr-2 pl-2 md:pl-4">
          {Array.from({ length: count }, (_, column) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: the cells are all the same
            <div key={column} className="px-2">
              <Skeleton className={cx("max-w-full", widths[(at + column) % widths.length])} />
            </div>
          ))}
        </div>
      ))}
    </div>
  );
}
