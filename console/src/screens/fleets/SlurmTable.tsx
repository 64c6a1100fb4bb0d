import { type ReactNode, useId } from "react";
import { cx } from "@/lib/cx";

export const cell = "px-3 py-1.5 whitespace-nowrap";
export const number = `${cell} text-right`;

type Head = { name: string; numeric?: boolean };

// SlurmTable is a table with a heading, or a sentence if it has no rows. It scrolls sideways in a part of its own.
export function SlurmTable({
  title,
  head,
  empty,
  children,
}: {
  title: string;
  head: Head[];
  empty: string | null;
  children: ReactNode;
}) {
  const id = useId();
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] gap-2">
      <h2 id={id} className="text-sm font-semibold">
        {title}
      </h2>
      {empty ? (
        <p className="text-sm text-soft">{empty}</p>
      ) : (
        <div
          className="scroll-thin overflow-x-auto rounded-lg border bg-card"
          role="region"
          // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
          tabIndex={0}
          aria-labelledby={id}
        >
          <table className="w-full text-left text-sm">
            <thead className="border-b bg-sunken text-xs text-soft">
              <tr>
                {head.map(({ name, numeric }) => (
                  <th key={name} scope="col" className={cx("font-medium", numeric ? number : cell)}>
                    {name}
                  </th>
                ))}
              </tr>
            </thead>
            {children}
          </table>
        </div>
      )}
    </div>
  );
}
