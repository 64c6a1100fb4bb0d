import { Link, type LinkProps } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { Time } from "./Time";
import type { Column } from "./table/columns";
import { UntrustedText } from "./UntrustedText";

type Row = { id: string; name: string; description: string; project: string; owner: string; created_at: string };

// nameColumn is the name of an object as a link to it, with what stands beside it.
export function nameColumn<T extends Row>(
  header: string,
  link: (row: T) => LinkProps,
  beside?: (row: T) => ReactNode,
): Column<T> {
  return {
    id: "name",
    header,
    width: "minmax(11rem,1.4fr)",
    fixed: true,
    cell: (row) => (
      <span className="flex items-center gap-1.5">
        <Link {...link(row)} className="truncate font-medium hover:underline">
          <UntrustedText text={row.name} longest={128} />
        </Link>
        {beside?.(row)}
      </span>
    ),
  };
}

// ownColumns are the columns that the lists of objects of projects share. textOf returns the texts of the area.
export function ownColumns<T extends Row>(textOf: (key: string) => string): Column<T>[] {
  return [
    {
      id: "description",
      header: textOf("description"),
      width: "minmax(11rem,2fr)",
      cell: (row) => <UntrustedText text={row.description} className="text-soft" />,
    },
    {
      id: "project",
      header: textOf("project"),
      width: "minmax(6rem,0.7fr)",
      cell: (row) => <UntrustedText text={row.project} />,
    },
    {
      id: "owner",
      header: textOf("owner"),
      width: "minmax(6rem,0.7fr)",
      cell: (row) => <UntrustedText text={row.owner} />,
    },
    {
      id: "created",
      header: textOf("created"),
      width: "6.5rem",
      numeric: true,
      cell: (row) => <Time at={row.created_at} />,
    },
    {
      id: "id",
      header: textOf("id"),
      width: "16.5rem",
      optional: true,
      cell: (row) => <span className="font-mono text-xs">{row.id}</span>,
    },
  ];
}
