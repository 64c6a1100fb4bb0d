import { useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback, useMemo } from "react";
import { useTranslation } from "react-i18next";
import { firstRubricCommand } from "@/lib/commands";
import { type Column, Nothing, Num } from "@/ui";
import { ListScreen } from "@/ui/ListScreen";
import { nameColumn, ownColumns } from "@/ui/list-columns";
import { type Rubric, useRubrics } from "./api";
import { listRoute } from "./area";

const link = (row: Rubric) => ({ to: "/rubrics/$id", params: { id: row.id } }) as const;

export function RubricsScreen() {
  const { t } = useTranslation("rubrics");
  const { q } = listRoute.useSearch();
  const { project } = useSearch({ strict: false });
  const navigate = useNavigate();
  const filter = useCallback(
    (text: string | undefined) => void navigate({ to: "/rubrics", search: { q: text }, replace: true }),
    [navigate],
  );
  const columns = useMemo<Column<Rubric>[]>(
    () => [
      nameColumn(t("name"), link),
      {
        id: "latest",
        header: t("latest"),
        width: "6rem",
        numeric: true,
        cell: (row) => (row.current_version === null ? <Nothing /> : <Num value={row.current_version} />),
      },

      ...ownColumns<Rubric>(t),
    ],
    [t],
  );
  return (
    <ListScreen
      area="rubrics"
      list={useRubrics(q, project)}
      columns={columns}
      query={q}
      onQuery={filter}
      onOpen={(row) => void navigate(link(row))}
      command={firstRubricCommand}
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
