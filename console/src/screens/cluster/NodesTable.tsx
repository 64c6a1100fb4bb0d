import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { useTranslation } from "react-i18next";
import { Bytes, type Column, Num, StateBadge, Table, Time, UntrustedText } from "@/ui";
import type { Node } from "./api";

const idOf = (node: Node) => node.id;
const nameOf = (node: Node) => node.name;

type Props = { nodes: readonly Node[]; pending: boolean; onOpen: (node: Node) => void };

export function NodesTable({ nodes, pending, onOpen }: Props) {
  const { t } = useTranslation("cluster");
  const columns = useNodeColumns();
  return (
    <Table
      label={t("view.nodes")}
      rows={nodes}
      columns={columns}
      rowId={idOf}
      rowName={nameOf}
      onOpen={onOpen}
      pending={pending}
    />
  );
}

function useNodeColumns(): Column<Node>[] {
  const { t } = useTranslation("cluster");
  return useMemo(
    () => [
      { id: "state", header: t("state"), width: "7.5rem", cell: (node) => <StateBadge state={node.state} /> },
      {
        id: "name",
        header: t("name"),
        width: "minmax(11rem,1.4fr)",
        cell: (node) => (
          <Link to="/cluster/nodes/$id" params={{ id: node.id }} className="font-medium hover:underline">
            <UntrustedText text={node.name} longest={128} />
          </Link>
        ),
      },
      {
        id: "pools",
        header: t("pools"),
        width: "minmax(7rem,1fr)",
        cell: (node) => <UntrustedText text={node.pools.join(", ")} className="text-soft" />,
      },
      {
        id: "gpus",
        header: t("gpusFree"),
        width: "7rem",
        numeric: true,
        cell: (node) => t("freeOf", { free: node.gpus_free, total: node.gpus }),
      },
      { id: "works", header: t("works"), width: "5rem", numeric: true, cell: (node) => <Num value={node.works} /> },
      { id: "cpus", header: t("cpus"), width: "5rem", numeric: true, cell: (node) => <Num value={node.cpus} /> },
      {
        id: "memory",
        header: t("memory"),
        width: "6rem",
        numeric: true,
        cell: (node) => <Bytes value={node.memory_bytes} />,
      },
      {
        id: "version",
        header: t("version"),
        width: "8rem",
        cell: (node) => <span className="font-mono text-xs text-soft">{node.version}</span>,
      },
      {
        id: "seen",
        header: t("seen"),
        width: "7rem",
        numeric: true,
        cell: (node) => <Time at={node.last_seen_at} />,
      },
    ],
    [t],
  );
}
