import type { ReactNode } from "react";
import { useCallback, useState } from "react";

export const rowHeight = 32;

export type Column<T> = {
  id: string;
  header: string;
  cell: (row: T) => ReactNode;
  // width is a track of a CSS grid: "8rem" or "minmax(10rem,2fr)".
  width?: string;
  // Numbers are aligned at the right, with digits of equal width.
  numeric?: boolean;
  // A fixed column cannot be hidden.
  fixed?: boolean;
  // A column that is hidden until the user shows it.
  optional?: boolean;
};

// useColumns keeps which columns of a table the user sees, in this browser. name is the table's name.
export function useColumns<T>(
  name: string,
  columns: readonly Column<T>[],
): { hidden: ReadonlySet<string>; show: (id: string, on: boolean) => void } {
  const key = `signalbox.columns.${name}`;
  const [hidden, setHidden] = useState<ReadonlySet<string>>(
    () => read(key) ?? new Set(columns.filter((c) => c.optional).map((c) => c.id)),
  );
  const show = useCallback(
    (id: string, on: boolean) => {
      setHidden((before) => {
        const after = new Set(before);
        if (on) after.delete(id);
        else after.add(id);
        write(key, after);
        return after;
      });
    },
    [key],
  );
  return { hidden, show };
}

function read(key: string): Set<string> | null {
  try {
    const stored: unknown = JSON.parse(localStorage.getItem(key) ?? "null");
    return Array.isArray(stored) ? new Set(stored.filter((id) => typeof id === "string")) : null;
  } catch {
    return null;
  }
}

function write(key: string, hidden: ReadonlySet<string>): void {
  try {
    localStorage.setItem(key, JSON.stringify([...hidden]));
  } catch {
    // Without storage the choice lasts until the page is closed.
  }
}
