import { useVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, useCallback, useMemo, useRef } from "react";
import { type Column, rowHeight } from "./columns";
import { useRowKeys } from "./keys";
import { PendingRows } from "./PendingRows";
import { TableHead } from "./TableHead";
import { TableRow } from "./TableRow";

export type TableProps<T> = {
  // label is the name of the table for screen readers.
  label: string;
  rows: readonly T[];
  columns: readonly Column<T>[];
  // rowId must be the same function in each render.
  rowId: (row: T) => string;
  // rowName is what a row's checkbox is called; by default its id.
  rowName?: (row: T) => string;
  // hidden has the ids of the columns that are not shown; useColumns keeps it.
  hidden?: ReadonlySet<string>;
  // With selection, each row has a checkbox.
  selected?: ReadonlySet<string>;
  onSelect?: (ids: Set<string>) => void;
  // onOpen is called with a row when it is clicked or Enter is pressed.
  onOpen?: (row: T) => void;
  // menu is the row's menu or button, at its right end. It stays in view when the table scrolls sideways.
  menu?: (row: T) => ReactNode;
  menuWidth?: string;
  pending?: boolean;
  // footer stands below the rows, such as LoadMore.
  footer?: ReactNode;
};

// Table is a list with rows of 32 pixels. Only the visible rows are in the document. It fills its container. j, k
// and the arrows move between rows, x selects, Enter opens.
export function Table<T>(props: TableProps<T>) {
  const { label, rows, columns, rowId, hidden, selected, onSelect, onOpen, menu, pending = false, footer } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => rowHeight,
    overscan: 12,
    scrollPaddingStart: rowHeight,
  });
  const ids = useMemo(() => rows.map(rowId), [rows, rowId]);
  const visibleColumns = useMemo(() => columns.filter((c) => !hidden?.has(c.id)), [columns, hidden]);
  const template = [
    selected ? "2.25rem" : "",
    ...visibleColumns.map((c) => c.width ?? "minmax(6rem,1fr)"),
    menu ? (props.menuWidth ?? "2.5rem") : "",
  ]
    .filter(Boolean)
    .join(" ");
  const open = onOpen ? (at: number) => rows[at] !== undefined && onOpen(rows[at]) : undefined;
  const keys = useRowKeys({
    ids,
    container: scroller,
    scrollTo: (at) => virtual.scrollToIndex(at),
    onOpen: open,
    selected,
    onSelect,
  });
  const latest = useRef({ selected, onSelect });
  latest.current = { selected, onSelect };
  const toggle = useCallback((id: string, on: boolean) => {
    const next = new Set(latest.current.selected);
    if (on) next.add(id);
    else next.delete(id);
    latest.current.onSelect?.(next);
  }, []);

  return (
    <div ref={scroller} className="scroll-thin relative min-h-0 flex-1 overflow-auto border-t">
      <div
        role="grid"
        aria-label={label}
        aria-rowcount={rows.length + 1}
        aria-multiselectable={selected ? true : undefined}
        aria-busy={pending}
        tabIndex={-1}
        onKeyDown={keys.onKeyDown}
        className="w-fit min-w-full text-sm"
      >
        <TableHead
          columns={visibleColumns}
          template={template}
          ids={ids}
          selected={selected}
          onSelect={onSelect}
          menu={menu !== undefined}
        />
        {pending && rows.length === 0 ? <PendingRows template={template} count={visibleColumns.length} /> : null}
        <div role="rowgroup" className="relative" style={{ height: virtual.getTotalSize() }}>
          {virtual.getVirtualItems().map((item) => {
            const row = rows[item.index];
            const id = ids[item.index];
            if (row === undefined || id === undefined) return null;
            return (
              <TableRow
                key={id}
                id={id}
                row={row}
                name={props.rowName?.(row) ?? id}
                columns={visibleColumns}
                index={item.index}
                top={item.start}
                template={template}
                active={item.index === keys.active}
                selected={selected?.has(id)}
                onSelect={toggle}
                onFocus={keys.setActive}
                onOpen={onOpen}
                menu={menu}
              />
            );
          })}
        </div>
      </div>
      {footer}
    </div>
  );
}
