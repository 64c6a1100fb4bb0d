import { useTranslation } from "react-i18next";
import { cx } from "@/lib/cx";
import { Checkbox } from "../Checkbox";
import type { Column } from "./columns";

type Props<T> = {
  columns: readonly Column<T>[];
  template: string;
  ids: readonly string[];
  selected?: ReadonlySet<string>;
  onSelect?: (ids: Set<string>) => void;
  menu: boolean;
};

export function TableHead<T>({ columns, template, ids, selected, onSelect, menu }: Props<T>) {
  const { t } = useTranslation();
  const all = selected !== undefined && ids.length > 0 && ids.every((id) => selected.has(id));
  return (
    <div
      role="row"
      aria-rowindex={1}
      style={{ gridTemplateColumns: template }}
      className="sticky top-0 z-10 grid h-8 items-center border-b bg-paper pr-2 pl-2 text-xs text-soft md:pl-4"
    >
      {selected ? (
        <div role="columnheader" className="flex pl-2">
          <Checkbox
            label={t("selectAll")}
            checked={all ? true : selected.size > 0 ? "indeterminate" : false}
            onChange={(on) => onSelect?.(on ? new Set(ids) : new Set())}
          />
        </div>
      ) : null}
      {columns.map((column) => (
        <div
          key={column.id}
          role="columnheader"
          className={cx("truncate px-2 font-medium", column.numeric && "text-right")}
        >
          {column.header}
        </div>
      ))}
      {menu ? (
        <div role="columnheader">
          <span className="sr-only">{t("actions")}</span>
        </div>
      ) : null}
    </div>
  );
}
