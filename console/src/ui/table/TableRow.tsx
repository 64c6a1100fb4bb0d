import { memo, type ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { cx } from "@/lib/cx";
import { Checkbox } from "../Checkbox";
import type { Column } from "./columns";

type Props<T> = {
  row: T;
  id: string;
  name: string;
  columns: readonly Column<T>[];
  index: number;
  top: number;
  template: string;
  active: boolean;
  selected: boolean | undefined;
  onSelect: (id: string, on: boolean) => void;
  onFocus: (index: number) => void;
  onOpen?: (row: T) => void;
  menu?: (row: T) => ReactNode;
};

function Row<T>(props: Props<T>) {
  const { row, columns, index, template, selected, onOpen, menu } = props;
  const { t } = useTranslation();
  const first = selected === undefined ? 1 : 2;
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the grid handles the keys of its rows
    <div
      role="row"
      data-row={index}
      aria-rowindex={index + 2}
      aria-selected={selected}
      tabIndex={props.active ? 0 : -1}
      onFocus={() => props.onFocus(index)}
      onClick={onOpen ? (event) => !interactive(event.target) && onOpen(row) : undefined}
      style={{ gridTemplateColumns: template, transform: `translateY(${props.top}px)` }}
      className={cx(
        "group/row absolute inset-x-0 top-0 grid h-8 items-center border-b border-line/60 pr-2 pl-2 outline-none md:pl-4",
        "focus-visible:bg-hover focus-visible:shadow-[inset_2px_0_0_var(--accent)]",
        onOpen && "cursor-pointer",
        selected ? "bg-tint" : "hover:bg-hover",
      )}
    >
      {selected !== undefined ? (
        <div role="gridcell" style={{ gridArea: "1 / 1" }} className="flex pl-2">
          <Checkbox
            tabIndex={-1}
            label={t("selectRow", { name: props.name })}
            checked={selected}
            onChange={(on) => props.onSelect(props.id, on)}
          />
        </div>
      ) : null}
      {columns.map((column, at) => (
        <div
          key={column.id}
          role="gridcell"
          style={{ gridArea: `1 / ${first + at}` }}
          className={cx("truncate px-2", column.numeric && "tabular text-right")}
        >
          {column.cell(row)}
        </div>
      ))}
      {menu ? (
        // Its area is the whole row, so that it can stick to the edge while the row moves under it.
        <div
          role="gridcell"
          style={{ gridArea: "1 / 1 / 2 / -1" }}
          className={cx(
            "sticky right-0 flex h-full items-center justify-self-end pl-1",
            selected ? "bg-tint" : "bg-paper group-hover/row:bg-hover group-focus-visible/row:bg-hover",
          )}
        >
          {menu(row)}
        </div>
      ) : null}
    </div>
  );
}

// A scroll renders the table, but only the rows that come into view.
export const TableRow = memo(Row) as typeof Row;

// interactive reports whether a click belongs to a control or a link inside the row, or to a menu of the row, which is
// elsewhere in the document.
function interactive(target: EventTarget): boolean {
  return (
    target instanceof Element &&
    target.closest("a,button,input,label,[role=checkbox],[role^=menu],[role=dialog],[role=alertdialog]") !== null
  );
}
