import { Columns3 } from "lucide-react";
import { useTranslation } from "react-i18next";
import { DropdownMenu, MenuCheck, MenuLabel } from "../DropdownMenu";
import { IconButton } from "../IconButton";
import type { Column } from "./columns";

type Props<T> = {
  columns: readonly Column<T>[];
  hidden: ReadonlySet<string>;
  onShow: (id: string, on: boolean) => void;
};

export function ColumnChooser<T>({ columns, hidden, onShow }: Props<T>) {
  const { t } = useTranslation();
  return (
    <DropdownMenu
      trigger={
        <IconButton
          label={t("columns")}
          tip={false}
          icon={<Columns3 size={15} aria-hidden />}
          className="size-8 border border-line bg-card"
        />
      }
    >
      <MenuLabel>{t("columns")}</MenuLabel>
      {columns.map((c) => (
        <MenuCheck key={c.id} checked={!hidden.has(c.id)} disabled={c.fixed} onChange={(on) => onShow(c.id, on)}>
          {c.header}
        </MenuCheck>
      ))}
    </DropdownMenu>
  );
}
