import { useLocation, useNavigate } from "@tanstack/react-router";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import { useView } from "@/lib/view";
import { Button, EmptyState, ErrorNote, ErrorPanel, ReconnectingBar, SkeletonLines } from "@/ui";
import { FollowPill } from "./FollowPill";
import { LogStatus } from "./LogStatus";
import { LogToolbar } from "./LogToolbar";
import { LogView, type LogViewHandle } from "./LogView";
import { PartialLines } from "./PartialLines";
import { type Conditions, mostFound, useFound } from "./use-found";
import { useKeys } from "./use-keys";
import { useLog } from "./use-log";
import { useMatches } from "./use-matches";
import { filtersOf, lineOf, logsView, noFilters } from "./view";

// LogsTab shows the log of a run: its pages are read as they are looked at, so that its length does not matter.
export function LogsTab({ runId, live }: { jobId?: string; runId: string; live: boolean }) {
  const { t } = useTranslation("logs");
  const [view, change] = useView(logsView);
  const log = useLog(runId);
  const [selected, select] = useSelected();
  const handle = useRef<LogViewHandle>(null);
  const search = useRef<HTMLInputElement>(null);

  const { rank, node, attempt, level, since, until } = view;
  const conditions = useMemo<Conditions | null>(() => {
    const filters = filtersOf({ rank, node, attempt, level, since, until });
    if (!filters && !(view.only && view.find)) return null;
    const context = view.around ? Number(view.around) : undefined;
    const pattern = view.only && view.find ? { pattern: view.find, ignore_case: !view.case, context } : {};
    return { ...pattern, ...filters };
  }, [rank, node, attempt, level, since, until, view.only, view.find, view.case, view.around]);
  const filtered = useFound(runId, log.ready ? conditions : null, log.count, 1000);
  const lines = conditions ? filtered : log;

  const [following, setFollowing] = useState(selected === null && !view.find);
  const [seen, setSeen] = useState(0);
  const follow = useCallback(
    (on: boolean) => {
      setFollowing(on);
      if (!on) setSeen((before) => (following ? lines.count : before));
    },
    [following, lines.count],
  );

  const show = useCallback(
    (seq: number) => {
      follow(false);
      select(seq);
      handle.current?.show(Math.max(0, lines.indexOf(seq)));
    },
    [follow, select, lines],
  );
  const matches = useMatches(
    runId,
    view,
    log,
    view.only && view.find && !view.around ? filtered : null,
    selected,
    show,
  );
  const end = useCallback(() => {
    if (conditions) filtered.more(Number.MAX_SAFE_INTEGER);
    follow(true);
  }, [conditions, filtered.more, follow]);
  useKeys({ view, change, matches, search, end, follow: () => follow(!following) });
  // Lines that match are searched from the first one on. Their last one is known when the search is complete.
  const reachable = !conditions || filtered.complete || filtered.count >= mostFound;
  const shape = JSON.stringify(conditions);
  useShown(log.ready && lines.count > 0, shape, selected, (seq) =>
    handle.current?.show(Math.max(0, lines.indexOf(seq))),
  );

  if (log.error && !log.ready) return <ErrorPanel error={log.error} onRetry={log.retry} />;
  if (!log.ready) return <SkeletonLines lines={12} className="px-4 pt-4 md:px-6" />;
  if (log.count === 0 && log.complete)
    return <EmptyState title={t("empty")} why={t("emptyWhyEnded")} docs="/docs/reference/api#logs" />;
  return (
    <div className="flex min-h-96 flex-1 flex-col pt-3">
      <LogToolbar
        runId={runId}
        view={view}
        change={change}
        matches={matches}
        search={search}
        ended={log.complete}
        following={following}
        onFollow={follow}
        selected={selected}
        onUnselect={() => select(null)}
        onFocusLog={() => handle.current?.focus()}
      />
      {matches.error || filtered.error || log.error ? (
        <ErrorNote error={matches.error ?? filtered.error ?? log.error} className="mx-4 mb-2 md:mx-6" />
      ) : null}
      <ReconnectingBar state={log.stream === "failed" ? "ended" : log.stream} />
      <div className="relative min-h-64 flex-1 border-t">
        {log.count === 0 && log.partial.length === 0 ? (
          <EmptyState title={t("empty")} why={t("emptyWhy")} command="print('hello')" docs="/docs/reference/api#logs" />
        ) : (
          <LogView
            key={shape}
            lines={lines}
            view={view}
            selected={selected}
            marked={matches.has}
            onSelect={select}
            following={following && reachable}
            onFollow={follow}
            handle={handle}
          />
        )}
        {conditions && !filtered.complete && filtered.count === 0 && !filtered.error ? (
          <SkeletonLines lines={12} className="absolute inset-0 content-start bg-card px-4 pt-4 md:px-6" />
        ) : null}
        {conditions && filtered.complete && filtered.count === 0 ? (
          <div className="absolute inset-0 grid content-start justify-items-center gap-2 bg-card pt-12 text-sm text-soft">
            {t("noLine")}
            <Button onClick={() => change({ only: undefined, ...noFilters })}>{t("showAll")}</Button>
          </div>
        ) : null}
        <FollowPill shown={!following && lines.count > seen && seen > 0} count={lines.count - seen} onClick={end} />
      </div>
      <PartialLines lines={conditions ? [] : log.partial} view={view} />
      <LogStatus log={log} filtered={conditions ? filtered : null} live={live} />
    </div>
  );
}

// useSelected keeps the selected line in the fragment of the address: #L123.
function useSelected(): [number | null, (seq: number | null) => void] {
  const hash = useLocation({ select: (location) => location.hash });
  const navigate = useNavigate();
  const select = useCallback(
    (seq: number | null) => {
      const fragment = seq === null ? "" : `L${seq}`;
      void navigate({
        to: ".",
        search: true as never,
        hash: fragment,
        replace: true,
        resetScroll: false,
        hashScrollIntoView: false,
      });
    },
    [navigate],
  );
  return [lineOf(hash), select];
}

// useShown shows the selected line when the log is opened, and when other lines are shown.
function useShown(ready: boolean, shape: string, selected: number | null, show: (seq: number) => void): void {
  const done = useRef<string | null>(null);
  useEffect(() => {
    if (!ready || done.current === shape) return;
    done.current = shape;
    if (selected !== null) show(selected);
  });
}
