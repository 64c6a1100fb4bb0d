import { useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { api, call, type Schemas } from "@/api/client";
import { byOffset, usePages } from "@/api/pages";
import {
  Badge,
  Button,
  type Column,
  DropdownMenu,
  ErrorPanel,
  LoadMore,
  MenuItem,
  PageHeader,
  Table,
  Time,
} from "@/ui";
import { RotateDialog } from "./RotateDialog";

type Key = Schemas["SigningKey"];
export type Purpose = Key["purpose"];
const purposes: readonly Purpose[] = ["access", "caller"];
const size = 100;
const idOf = (key: Key) => key.kid;

export function KeysScreen() {
  const { t } = useTranslation("admin");
  const [rotating, setRotating] = useState<Purpose | null>(null);
  const columns = useKeyColumns();
  const list = usePages<Key, number>(
    ["admin", "keys"],
    size,
    0,
    async (limit, offset, signal) =>
      byOffset(await call(api.GET("/api/admin/keys", { params: { query: { limit, offset } }, signal })), size, offset),
    { refetchInterval: 30_000 },
  );
  const rotate = (
    <DropdownMenu trigger={<Button>{t("rotate")}</Button>}>
      {purposes.map((purpose) => (
        <MenuItem key={purpose} onSelect={() => setRotating(purpose)}>
          {t(`purpose.${purpose}`)}
        </MenuItem>
      ))}
    </DropdownMenu>
  );
  return (
    <>
      <PageHeader name={t("keys")} actions={rotate} />
      {list.error && list.rows.length === 0 ? (
        <ErrorPanel error={list.error} onRetry={list.refetch} />
      ) : (
        <Table
          label={t("keys")}
          rows={list.rows}
          columns={columns}
          rowId={idOf}
          pending={list.pending}
          footer={<LoadMore more={list.more} busy={list.loadingMore} onMore={list.loadMore} />}
        />
      )}
      {rotating ? <RotateDialog purpose={rotating} onClose={() => setRotating(null)} /> : null}
    </>
  );
}

function useKeyColumns(): Column<Key>[] {
  const { t } = useTranslation("admin");
  return useMemo(
    () => [
      {
        id: "state",
        header: t("state"),
        width: "9rem",
        cell: (key) => (
          <Badge tone={key.state === "signing" ? "good" : "neutral"}>
            {t(`keyState.${key.state}`, { defaultValue: key.state })}
          </Badge>
        ),
      },
      {
        id: "purpose",
        header: t("signs"),
        width: "minmax(12rem,1fr)",
        cell: (key) => t(`purpose.${key.purpose}`),
      },
      {
        id: "kid",
        header: t("id"),
        width: "minmax(14rem,1.4fr)",
        cell: (key) => <span className="font-mono text-xs">{key.kid}</span>,
      },
      {
        id: "created",
        header: t("created"),
        width: "8rem",
        numeric: true,
        cell: (key) => <Time at={key.created_at} />,
      },
      { id: "signs", header: t("signsFrom"), width: "8rem", numeric: true, cell: (key) => <Time at={key.signs_at} /> },
      {
        id: "until",
        header: t("verifiesUntil"),
        width: "9rem",
        numeric: true,
        cell: (key) => <Time at={key.verifies_until} />,
      },
    ],
    [t],
  );
}
