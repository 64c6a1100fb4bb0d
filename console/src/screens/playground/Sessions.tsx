import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { ErrorPanel, LoadMore, SkeletonLines, StateBadge, Time, UntrustedText } from "@/ui";
import { ModelName } from "../models/ModelName";
import { useSessions } from "./api";

export function Sessions() {
  const { t } = useTranslation("playground");
  const list = useSessions();
  if (list.error && list.rows.length === 0) return <ErrorPanel error={list.error} onRetry={list.refetch} />;
  if (list.pending) return <SkeletonLines lines={3} />;
  if (list.rows.length === 0) return <p className="text-sm text-soft">{t("noSessions")}</p>;
  return (
    <>
      <ul className="divide-y divide-line/60 rounded-lg border bg-card text-sm">
        {list.rows.map((session) => (
          <li key={session.id} className="flex min-h-9 flex-wrap items-center gap-x-4 px-4 py-1">
            <span className="w-24">
              <StateBadge state={session.state} />
            </span>
            <Link
              to="/playground/$session"
              params={{ session: session.id }}
              className="min-w-0 truncate font-medium hover:underline"
            >
              <UntrustedText text={session.title || session.id} longest={128} />
            </Link>
            <span className="flex min-w-0 flex-1 flex-wrap gap-x-3 text-soft">
              {session.targets.map((target) =>
                target.source ? (
                  <ModelName key={target.target} id={target.source.model_id} version={target.source.version} />
                ) : null,
              )}
            </span>
            <UntrustedText text={session.owner} longest={128} className="text-soft" />
            <span className="w-24 text-right text-soft">
              <Time at={session.created_at} />
            </span>
          </li>
        ))}
      </ul>
      <LoadMore more={list.more} busy={list.loadingMore} onMore={list.loadMore} />
    </>
  );
}
