import { useNavigate } from "@tanstack/react-router";
import { GitCompareArrows, X } from "lucide-react";
import { useCallback, useState } from "react";
import { useTranslation } from "react-i18next";
import { afterLogIn, firstJobCommand, firstRunProgram } from "@/lib/commands";
import { mostRuns } from "@/screens/compare/search";
import {
  Button,
  ColumnChooser,
  EmptyState,
  ErrorPanel,
  IconButton,
  LoadMore,
  PageHeader,
  ReconnectingBar,
  StaleBar,
  Table,
  useColumns,
} from "@/ui";
import { runsRoute } from "./area";
import { useRunColumns } from "./columns";
import { filtered, noFilters, type RunsSearch } from "./filters";
import { RunFilters } from "./RunFilters";
import { type Run, useRuns } from "./use-runs";

const idOf = (run: Run) => run.id;
const nameOf = (run: Run) => run.name;

// RunsScreen is the list of runs, which stay when their jobs are deleted.
export function RunsScreen() {
  const { t } = useTranslation("runs");
  const search = runsRoute.useSearch();
  const navigate = useNavigate({ from: "/runs" });
  const list = useRuns(search);
  const columns = useRunColumns();
  const { hidden, show } = useColumns("runs", columns);
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const filter = useCallback(
    (change: Partial<RunsSearch>) => {
      setSelected(new Set());
      void navigate({ search: (before) => ({ ...before, ...change }), replace: true });
    },
    [navigate],
  );
  return (
    <>
      <PageHeader name={t("title")} />
      <ReconnectingBar state={list.stream} />
      {list.stale ? <StaleBar error={list.stale} onRetry={list.retry} /> : null}
      <RunFilters
        search={search}
        onChange={filter}
        end={<ColumnChooser columns={columns} hidden={hidden} onShow={show} />}
      />
      {list.error && list.rows.length === 0 ? (
        <ErrorPanel error={list.error} onRetry={list.retry} />
      ) : !list.pending && list.rows.length === 0 ? (
        <Empty some={filtered(search)} onClear={() => filter(noFilters)} />
      ) : (
        <Table
          label={t("title")}
          rows={list.rows}
          columns={columns}
          rowId={idOf}
          rowName={nameOf}
          hidden={hidden}
          selected={selected}
          onSelect={setSelected}
          onOpen={(run) => void navigate({ to: "/runs/$id/{-$tab}", params: { id: run.id, tab: undefined } })}
          pending={list.pending}
          footer={<LoadMore more={list.more} busy={list.loadingMore} onMore={list.loadMore} />}
        />
      )}
      <CompareBar
        count={selected.size}
        onCompare={() => void navigate({ to: "/compare", search: { runs: [...selected].join(",") } })}
        onClear={() => setSelected(new Set())}
      />
    </>
  );
}

function Empty({ some, onClear }: { some: boolean; onClear: () => void }) {
  const { t } = useTranslation("runs");
  if (some)
    return (
      <EmptyState
        title={t("noMatch")}
        why={t("noMatchWhy")}
        action={<Button onClick={onClear}>{t("clearFilters")}</Button>}
      />
    );
  return (
    <>
      <EmptyState
        title={t("empty")}
        why={t("emptyWhy")}
        command={afterLogIn(location.origin, firstJobCommand("default"))}
        docs="/docs"
      />
      <EmptyState title={t("noJobYet")} why={t("noJobYetWhy")} command={firstRunProgram(location.origin, "default")} />
    </>
  );
}

function CompareBar({ count, onCompare, onClear }: { count: number; onCompare: () => void; onClear: () => void }) {
  const { t } = useTranslation("runs");
  if (count === 0) return null;
  return (
    <div
      role="toolbar"
      aria-label={t("selection")}
      className="fade-in flex flex-wrap items-center gap-2 border-t bg-card px-4 py-2 md:px-6"
    >
      <span className="tabular mr-2 text-sm font-medium">{t("selected", { count })}</span>
      <Button
        size="sm"
        icon={<GitCompareArrows size={12} aria-hidden />}
        disabled={count < 2 || count > mostRuns}
        onClick={onCompare}
      >
        {t("compare")}
      </Button>
      {count > mostRuns ? <span className="text-xs text-soft">{t("most", { count: mostRuns })}</span> : null}
      <IconButton label={t("unselect")} icon={<X size={14} aria-hidden />} onClick={onClear} className="ml-auto" />
    </div>
  );
}
