import { useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback, useMemo } from "react";
import { useTranslation } from "react-i18next";
import type { Model } from "@/api/models";
import { firstModelCommand } from "@/lib/commands";
import { Badge, type Column, Nothing, UntrustedText } from "@/ui";
import { ListScreen } from "@/ui/ListScreen";
import { nameColumn, ownColumns } from "@/ui/list-columns";
import { useModels } from "./api";
import { modelsListRoute } from "./area";

const link = (row: Model) => ({ to: "/models/$id/$version", params: { id: row.id, version: "latest" } }) as const;

export function ModelsScreen() {
  const { t } = useTranslation("models");
  const { q } = modelsListRoute.useSearch();
  const { project } = useSearch({ strict: false });
  const navigate = useNavigate();
  const filter = useCallback(
    (text: string | undefined) => void navigate({ to: "/models", search: { q: text }, replace: true }),
    [navigate],
  );
  const columns = useMemo<Column<Model>[]>(
    () => [
      nameColumn(t("name"), link),
      {
        id: "latest",
        header: t("latest"),
        width: "6rem",
        numeric: true,
        cell: (row) => (row.latest_version === null ? <Nothing /> : `v${row.latest_version}`),
      },
      { id: "aliases", header: t("aliases"), width: "minmax(10rem,1.2fr)", cell: (row) => <Aliases model={row} /> },
      {
        id: "task",
        header: t("task"),
        width: "7rem",
        cell: (row) => t(`tasks.${row.task}`, { defaultValue: row.task }),
      },

      ...ownColumns<Model>(t),
    ],
    [t],
  );
  return (
    <ListScreen
      area="models"
      list={useModels(q, project)}
      columns={columns}
      query={q}
      onQuery={filter}
      onOpen={(row) => void navigate(link(row))}
      command={firstModelCommand}
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

function Aliases({ model }: { model: Model }) {
  return (
    <span className="flex gap-1">
      {Object.entries(model.aliases).map(([alias, version]) => (
        <Badge key={alias} tone={alias === "production" ? "good" : "neutral"}>
          <UntrustedText text={alias} longest={64} /> v{version}
        </Badge>
      ))}
    </span>
  );
}
