import { hashKey, notifyManager, useQueryClient } from "@tanstack/react-query";
import { Link, useMatches } from "@tanstack/react-router";
import { Fragment, type ReactNode, useCallback, useSyncExternalStore } from "react";
import { useTranslation } from "react-i18next";
import { cx } from "@/lib/cx";
import { UntrustedText } from "@/ui/UntrustedText";
import { nameOf } from "./object-name";

type Crumb = { to: string; label: string; text: string; within: string; object: readonly string[] | null; id: string };

// Breadcrumbs show the routes that lead to the screen, by their staticData. An object has its name when it is read.
export function Breadcrumbs() {
  const { t } = useTranslation();
  const crumbs = useMatches({
    select: (matches) =>
      matches.flatMap((match): Crumb[] => {
        const { crumb, within = "", object } = match.staticData;
        if (!crumb) return [];
        const params = match.params as Record<string, string>;
        return [
          {
            to: match.pathname,
            label: typeof crumb === "string" ? crumb : "",
            text: typeof crumb === "string" ? "" : crumb(params),
            within,
            object: object?.(params) ?? null,
            id: params.id ?? params.session ?? "",
          },
        ];
      }),
    structuralSharing: true,
  });
  return (
    <nav aria-label={t("breadcrumbs")} className="hidden min-w-0 md:block">
      <ol className="flex min-w-0 items-center gap-1.5 text-sm">
        {crumbs.map((crumb, at) => (
          <Fragment key={crumb.to}>
            {crumb.within ? (
              <Item to={`/${crumb.within}`} last={false}>
                {t(`nav.${crumb.within}`)}
              </Item>
            ) : null}
            <Item to={crumb.to} last={at === crumbs.length - 1}>
              {crumb.label ? t(`nav.${crumb.label}`) : <ObjectName crumb={crumb} />}
            </Item>
          </Fragment>
        ))}
      </ol>
    </nav>
  );
}

function Item({ to, last, children }: { to: string; last: boolean; children: ReactNode }) {
  return (
    <li className={cx("flex min-w-0 items-center gap-1.5", !last && "shrink-0")}>
      <span aria-hidden className="text-line">
        /
      </span>
      <Link
        to={to}
        aria-current={last ? "page" : undefined}
        className={cx("truncate", last ? "text-ink" : "text-soft hover:text-ink")}
      >
        {children}
      </Link>
    </li>
  );
}

function ObjectName({ crumb: { text, object, id } }: { crumb: Crumb }) {
  const name = nameOf(useCached(object));
  return <UntrustedText text={name === null || id === "" ? text : text.replace(id, () => name)} longest={60} />;
}

// useCached returns what a screen has read, and reads nothing itself.
function useCached(key: readonly string[] | null): unknown {
  const client = useQueryClient();
  const hash = key === null ? "" : hashKey(key);
  const subscribe = useCallback(
    (tell: () => void) => {
      const later = notifyManager.batchCalls(tell);
      return client.getQueryCache().subscribe(({ type, query }) => {
        if (query.queryHash === hash && (type === "updated" || type === "removed")) later();
      });
    },
    [client, hash],
  );
  return useSyncExternalStore(subscribe, () => (key === null ? undefined : client.getQueryData(key)));
}
