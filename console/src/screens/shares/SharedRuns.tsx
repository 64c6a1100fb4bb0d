import { useTranslation } from "react-i18next";
import { Duration, StateBadge, UntrustedText } from "@/ui";
import type { Shared } from "./api";
import { strokeOf } from "./chart";

export function SharedRuns({ runs }: { runs: Shared["runs"] }) {
  const { t } = useTranslation("shares");
  return (
    <ul aria-label={t("runs")} className="divide-y rounded-lg border bg-card text-sm">
      {runs.map((run, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a run is known by its place in the link
        <li key={at} className="flex min-h-9 flex-wrap items-center gap-x-4 gap-y-1 px-4 py-1.5">
          {runs.length > 1 ? (
            <svg viewBox="0 0 16 8" className="h-2 w-4 shrink-0" aria-hidden="true">
              <path d="M0 4h16" strokeWidth="2.5" fill="none" {...strokeOf(at)} />
            </svg>
          ) : null}
          <UntrustedText
            text={run.name}
            longest={128}
            className="min-w-0 flex-1 truncate font-medium max-sm:basis-full"
          />
          <span className="text-soft">
            <UntrustedText text={run.recipe} longest={128} /> {run.recipe_version}
          </span>
          <StateBadge state={run.state} />
          <span className="sm:w-20 sm:text-right">
            <Duration from={run.started_at} to={run.ended_at} />
          </span>
        </li>
      ))}
    </ul>
  );
}
