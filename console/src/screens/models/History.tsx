import { useTranslation } from "react-i18next";
import type { Model } from "@/api/models";
import { ErrorPanel, LoadMore, SkeletonLines, Time, UntrustedText } from "@/ui";
import { useHistory } from "./api";

// History is who changed the stages and aliases of the model, and why.
export function History({ model }: { model: Model }) {
  const { t } = useTranslation("models");
  const list = useHistory(model.id);
  if (list.error && list.rows.length === 0) return <ErrorPanel error={list.error} onRetry={list.refetch} />;
  if (list.pending) return <SkeletonLines lines={4} />;
  if (list.rows.length === 0) return <p className="text-sm text-soft">{t("noHistory")}</p>;
  return (
    <>
      <ol className="divide-y divide-line/60 rounded-lg border bg-card text-sm">
        {list.rows.map((change) => (
          <li key={change.id} className="flex min-h-8 flex-wrap items-center gap-x-3 px-4 py-1">
            <span className="w-24 shrink-0 text-soft">
              <Time at={change.at} />
            </span>
            <span className="min-w-52">
              {t(`actions.${change.action}`, {
                defaultValue: change.action,
                version: change.version,
                alias: change.alias ?? "",
              })}
              {change.previous_version !== null ? (
                <span className="text-soft"> {t("before", { version: change.previous_version })}</span>
              ) : null}
            </span>
            <UntrustedText text={change.actor} longest={128} className="text-soft" />
            <UntrustedText text={change.note} longest={1000} />
          </li>
        ))}
      </ol>
      <LoadMore more={list.more} busy={list.loadingMore} onMore={list.loadMore} />
    </>
  );
}
