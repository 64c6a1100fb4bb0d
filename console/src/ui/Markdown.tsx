import { lazy, Suspense } from "react";
import { cx } from "@/lib/cx";
import { SkeletonLines } from "./Skeleton";

const Body = lazy(() => import("./MarkdownBody"));

// Markdown shows text of users. HTML in it is shown as text, images are links, and links leave the console safely.
export function Markdown({ text, className }: { text: string; className?: string }) {
  return (
    <div className={cx("max-w-prose text-sm leading-6 break-words", className)}>
      <Suspense fallback={<SkeletonLines lines={3} />}>
        <Body text={text} />
      </Suspense>
    </div>
  );
}
