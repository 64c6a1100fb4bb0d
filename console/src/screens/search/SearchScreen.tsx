import { useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback } from "react";
import { useTranslation } from "react-i18next";
import { EmptyState, ErrorPanel, FilterBar, PageBody, PageHeader, SkeletonLines } from "@/ui";
import { searchRoute } from "./area";
import { byKind, useFound } from "./found";
import { Group } from "./Group";
import { Kinds } from "./Kinds";
import { Missing } from "./Missing";

// SearchScreen shows what a text finds, in groups of one kind.
export function SearchScreen() {
  const { t } = useTranslation("search");
  const { q = "", kinds } = searchRoute.useSearch();
  const { project } = useSearch({ strict: false });
  const navigate = useNavigate();
  const found = useFound(q, { kinds, project, limit: 50 });
  const ask = useCallback(
    (change: { q?: string; kinds?: string[] }) =>
      void navigate({ to: "/search", search: (before) => ({ ...before, ...change }), replace: true }),
    [navigate],
  );
  const query = useCallback((text: string) => ask({ q: text || undefined }), [ask]);
  const results = found.data?.results ?? [];
  return (
    <>
      <PageHeader name={t("title")} />
      <FilterBar
        query={q}
        onQuery={query}
        placeholder={t("placeholder")}
        onClear={q || kinds ? () => ask({ q: undefined, kinds: undefined }) : undefined}
      >
        <Kinds chosen={kinds ?? []} onChoose={(next) => ask({ kinds: next.length > 0 ? next : undefined })} />
      </FilterBar>
      <PageBody>
        {[...q.trim()].length < 2 ? (
          <EmptyState title={t("start")} why={t("startWhy")} docs="/docs/reference/api/#search-in-everything" />
        ) : found.error && !found.data ? (
          <ErrorPanel error={found.error} onRetry={() => void found.refetch()} />
        ) : found.isPending ? (
          <SkeletonLines lines={6} />
        ) : (
          <div aria-live="polite" className="grid max-w-4xl gap-5">
            <Missing kinds={found.data?.missing ?? []} />
            {results.length === 0 ? (
              <EmptyState title={t("nothing")} why={project ? t("nothingInProject", { project }) : t("nothingWhy")} />
            ) : (
              byKind(results).map((group) => <Group key={group.kind} kind={group.kind} results={group.results} />)
            )}
            {results.length === 50 ? <p className="text-sm text-soft">{t("first", { count: 50 })}</p> : null}
          </div>
        )}
      </PageBody>
    </>
  );
}
