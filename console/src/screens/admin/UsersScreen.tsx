import { useNavigate } from "@tanstack/react-router";
import { Plus } from "lucide-react";
import { useCallback, useState } from "react";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { byOffset, usePages } from "@/api/pages";
import { Button, EmptyState, ErrorPanel, FilterBar, LoadMore, PageHeader, Table } from "@/ui";
import { type User, useQuotas } from "./api";
import { usersRoute } from "./area";
import { CreateUser } from "./CreateUser";
import { UserMenu } from "./UserMenu";
import { useUserColumns } from "./user-columns";

const size = 100;
const idOf = (user: User) => user.id;
const nameOf = (user: User) => user.username;

export function UsersScreen() {
  const { t } = useTranslation("admin");
  const { q } = usersRoute.useSearch();
  const navigate = useNavigate({ from: usersRoute.fullPath });
  const [creating, setCreating] = useState(false);
  const quotas = useQuotas();
  const columns = useUserColumns(quotas.data);
  const list = usePages<User, number>(
    ["admin", "users", "list", q ?? ""],
    size,
    0,
    async (limit, offset, signal) =>
      byOffset(
        await call(api.GET("/api/admin/users", { params: { query: { limit, offset, q } }, signal })),
        size,
        offset,
      ),
    { refetchInterval: 30_000 },
  );
  const filter = useCallback(
    (text: string) => void navigate({ to: ".", search: (s) => ({ ...s, q: text || undefined }), replace: true }),
    [navigate],
  );
  const create = (
    <Button variant="primary" icon={<Plus size={14} aria-hidden />} onClick={() => setCreating(true)}>
      {t("addUser")}
    </Button>
  );
  return (
    <>
      <PageHeader name={t("users")} actions={create} />
      <FilterBar
        query={q ?? ""}
        onQuery={filter}
        placeholder={t("findUser")}
        onClear={q ? () => filter("") : undefined}
      />
      {list.error && list.rows.length === 0 ? (
        <ErrorPanel error={list.error} onRetry={list.refetch} />
      ) : !list.pending && list.rows.length === 0 ? (
        <EmptyState title={t("noUsers")} why={t("noUsersWhy")} />
      ) : (
        <Table
          label={t("users")}
          rows={list.rows}
          columns={columns}
          rowId={idOf}
          rowName={nameOf}
          onOpen={(user) => void navigate({ to: "/admin/users/$id", params: { id: user.id } })}
          menu={(user) => <UserMenu user={user} quota={quotas.data?.get(user.username)} />}
          pending={list.pending}
          footer={<LoadMore more={list.more} busy={list.loadingMore} onMore={list.loadMore} />}
        />
      )}
      {creating ? <CreateUser onClose={() => setCreating(false)} /> : null}
    </>
  );
}
