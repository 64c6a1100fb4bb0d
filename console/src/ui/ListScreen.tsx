import { type ReactNode, useCallback } from "react";
import type { Pages } from "@/api/pages";
import { EmptyState } from "./EmptyState";
import { ErrorPanel } from "./ErrorPanel";
import { FilterBar } from "./FilterBar";
import { PageHeader } from "./PageHeader";
import { ColumnChooser } from "./table/ColumnChooser";
import { type Column, useColumns } from "./table/columns";
import { LoadMore } from "./table/LoadMore";
import { Table } from "./table/Table";

type Row = { id: string; name: string };

type Props<T extends Row> = {
  // area is where the choice of columns is kept.
  area: string;
  list: Pages<T>;
  columns: readonly Column<T>[];
  // The text filter, which is part of the address; onQuery must be the same function in each render.
  query: string | undefined;
  onQuery: (query: string | undefined) => void;
  onOpen: (row: T) => void;
  // command makes the first object.
  command: string;
  // actions stand beside the heading.
  actions?: ReactNode;
  texts: { title: string; filter: string; empty: string; emptyWhy: string; noMatch: string; noMatchWhy: string };
};

const idOf = (row: Row) => row.id;
const nameOf = (row: Row) => row.name;

// ListScreen is the list of one kind of object with a filter by name.
export function ListScreen<T extends Row>(props: Props<T>) {
  const { area, list, columns, query, onQuery, texts } = props;
  const { hidden, show } = useColumns(area, columns);
  const filter = useCallback((text: string) => onQuery(text || undefined), [onQuery]);
  const optional = columns.some((column) => !column.fixed);
  return (
    <>
      <PageHeader name={texts.title} actions={props.actions} />
      <FilterBar
        query={query ?? ""}
        onQuery={filter}
        placeholder={texts.filter}
        onClear={query ? () => onQuery(undefined) : undefined}
        end={optional ? <ColumnChooser columns={columns} hidden={hidden} onShow={show} /> : null}
      />
      {list.error && list.rows.length === 0 ? (
        <ErrorPanel error={list.error} onRetry={list.refetch} />
      ) : !list.pending && list.rows.length === 0 ? (
        query ? (
          <EmptyState title={texts.noMatch} why={texts.noMatchWhy} />
        ) : (
          <EmptyState title={texts.empty} why={texts.emptyWhy} command={props.command} docs="/docs" />
        )
      ) : (
        <Table
          label={texts.title}
          rows={list.rows}
          columns={columns}
          rowId={idOf}
          rowName={nameOf}
          hidden={hidden}
          onOpen={props.onOpen}
          pending={list.pending}
          footer={<LoadMore more={list.more} busy={list.loadingMore} onMore={list.loadMore} />}
        />
      )}
    </>
  );
}
