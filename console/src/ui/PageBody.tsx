import type { ReactNode } from "react";

// PageBody is the content of a page below its PageHeader. A list that fills the page needs none.
export function PageBody({ children }: { children: ReactNode }) {
  return <div className="grid max-w-[96rem] grid-cols-[minmax(0,1fr)] gap-6 px-4 pb-8 md:px-6">{children}</div>;
}
