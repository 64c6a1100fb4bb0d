import { useNavigate, useSearch } from "@tanstack/react-router";
import { Lock } from "lucide-react";
import { useCallback, useMemo } from "react";
import { useTranslation } from "react-i18next";
import { firstDatasetCommand } from "@/lib/commands";
import { type Column, Nothing, UntrustedText } from "@/ui";
import { ListScreen } from "@/ui/ListScreen";
import { nameColumn, ownColumns } from "@/ui/list-columns";
import { type Dataset, useDatasets } from "./api";
import { datasetsListRoute } from "./area";

const link = (row: Dataset) => ({ to: "/datasets/$id/$version", params: { id: row.id, version: "latest" } }) as const;

export function DatasetsScreen() {
  const { t } = useTranslation("datasets");
  const { q } = datasetsListRoute.useSearch();
  const { project } = useSearch({ strict: false });
  const navigate = useNavigate();
  const filter = useCallback(
    (text: string | undefined) => void navigate({ to: "/datasets", search: { q: text }, replace: true }),
    [navigate],
  );
  const columns = useMemo<Column<Dataset>[]>(
    () => [
      nameColumn(t("name"), link, (row) =>
        row.protected ? <Lock size={12} role="img" aria-label={t("protected")} className="shrink-0 text-info" /> : null,
      ),
      {
        id: "latest",
        header: t("latest"),
        width: "minmax(6rem,0.6fr)",
        cell: (row) =>
          row.latest_version === null ? <Nothing /> : <UntrustedText text={row.latest_version} longest={64} />,
      },
      { id: "format", header: t("format"), width: "7rem", cell: (row) => row.format },

      ...ownColumns<Dataset>(t),
    ],
    [t],
  );
  return (
    <ListScreen
      area="datasets"
      list={useDatasets(q, project)}
      columns={columns}
      query={q}
      onQuery={filter}
      onOpen={(row) => void navigate(link(row))}
      command={firstDatasetCommand}
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
