import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { UntrustedText } from "@/ui";
import { pathOf, type Result } from "./found";

// Group is the results of one kind.
export function Group({ kind, results }: { kind: string; results: readonly Result[] }) {
  const { t } = useTranslation("search");
  return (
    <section aria-label={t(`kinds.${kind}`)}>
      <h2 className="mb-1.5 text-sm font-semibold">{t(`kinds.${kind}`)}</h2>
      <ul className="divide-y rounded-lg border bg-card">
        {results.map((result) => (
          <li key={result.id}>
            <Row result={result} />
          </li>
        ))}
      </ul>
    </section>
  );
}

function Row({ result }: { result: Result }) {
  const to = pathOf(result);
  const content = (
    <>
      <span className="flex min-w-0 items-baseline gap-2">
        <span className="truncate font-medium">
          <UntrustedText text={result.title} longest={128} />
        </span>
        {result.project && result.kind !== "project" ? (
          <span className="truncate text-xs text-soft">
            <UntrustedText text={result.project} longest={40} />
          </span>
        ) : null}
        <span className="ml-auto hidden shrink-0 font-mono text-xs text-soft sm:inline">{result.id}</span>
      </span>
      {result.snippet ? (
        <span className="block truncate text-sm text-soft">
          <UntrustedText text={result.snippet} longest={200} />
        </span>
      ) : null}
    </>
  );
  const look = "block px-3 py-1.5";
  return to ? (
    <Link to={to} search={{}} className={`${look} hover:bg-hover`}>
      {content}
    </Link>
  ) : (
    <div className={look}>{content}</div>
  );
}
