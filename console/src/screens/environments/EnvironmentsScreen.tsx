import { useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback, useMemo } from "react";
import { useTranslation } from "react-i18next";
import { firstEnvironmentCommand } from "@/lib/commands";
import { type Column, Nothing, UntrustedText } from "@/ui";
import { ListScreen } from "@/ui/ListScreen";
import { nameColumn, ownColumns } from "@/ui/list-columns";
import { type Environment, useEnvironments } from "./api";
import { listRoute } from "./area";

const link = (row: Environment) => ({ to: "/environments/$id", params: { id: row.id } }) as const;

export function EnvironmentsScreen() {
  const { t } = useTranslation("environments");
  const { q } = listRoute.useSearch();
  const { project } = useSearch({ strict: false });
  const navigate = useNavigate();
  const filter = useCallback(
    (text: string | undefined) => void navigate({ to: "/environments", search: { q: text }, replace: true }),
    [navigate],
  );
  const columns = useMemo<Column<Environment>[]>(
    () => [
      nameColumn(t("name"), link),
      {
        id: "latest",
        header: t("latest"),
        width: "minmax(6rem,0.6fr)",
        cell: (row) =>
          row.latest_version === null ? <Nothing /> : <UntrustedText text={row.latest_version} longest={64} />,
      },

      ...ownColumns<Environment>(t),
    ],
    [t],
  );
  return (
    <ListScreen
      area="environments"
      list={useEnvironments(q, project)}
      columns={columns}
      query={q}
      onQuery={filter}
      onOpen={(row) => void navigate(link(row))}
      command={firstEnvironmentCommand}
      texts={{
        title: t("title"),
        filter: t("filter"),
        empty: t("empty"),
        emptyWhy: t("emptyWhy"),
        noMatch: t("noMatch"),
        noMatchWhy: t("noMatchWhy"),
      }}
    />
  );
}
