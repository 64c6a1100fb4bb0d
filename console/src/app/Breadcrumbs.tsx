import { Link, useMatches } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { cx } from "@/lib/cx";
import { UntrustedText } from "@/ui/UntrustedText";

// Breadcrumbs show the routes that lead to the screen, by their staticData.crumb.
export function Breadcrumbs() {
  const { t } = useTranslation();
  const crumbs = useMatches({
    select: (matches) =>
      matches.flatMap((match) => {
        const crumb = match.staticData.crumb;
        if (!crumb) return [];
        const shown =
          typeof crumb === "string"
            ? { key: crumb, text: "" }
            : { key: "", text: crumb(match.params as Record<string, string>) };
        return [{ ...shown, to: match.pathname }];
      }),
    structuralSharing: true,
  });
  return (
    <nav aria-label={t("breadcrumbs")} className="hidden min-w-0 md:block">
      <ol className="flex min-w-0 items-center gap-1.5 text-sm">
        {crumbs.map((crumb, at) => {
          const last = at === crumbs.length - 1;
          const text = crumb.key ? t(`nav.${crumb.key}`) : <UntrustedText text={crumb.text} longest={60} />;
          return (
            <li key={crumb.to} className="flex min-w-0 items-center gap-1.5">
              <span aria-hidden className="text-line">
                /
              </span>
              <Link
                to={crumb.to}
                aria-current={last ? "page" : undefined}
                className={cx("truncate", last ? "text-ink" : "text-soft hover:text-ink")}
              >
                {text}
              </Link>
            </li>
          );
        })}
      </ol>
    </nav>
  );
}
