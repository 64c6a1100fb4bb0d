import { useTranslation } from "react-i18next";
import { EmptyState, ErrorPanel, LoadMore, SkeletonLines, Time, UntrustedText } from "@/ui";
import { useGrowing } from "@/ui/table/growing";
import { useEvents } from "./api";
import type { DeploymentEvent } from "./deployment";

// Events is what happened to the deployment and who did it, newest first.
export default function Events({ id }: { id: string }) {
  const { t } = useTranslation("deployments");
  const { data, error, refetch } = useEvents(id);
  const { shown, more, loadMore } = useGrowing(data ?? []);
  if (error && !data) return <ErrorPanel error={error} onRetry={() => void refetch()} />;
  if (!data) return <SkeletonLines lines={5} />;
  if (data.length === 0) return <EmptyState title={t("noEvents")} why={t("noEventsWhy")} />;
  return (
    <div className="rounded-lg border bg-card text-sm">
      <ol aria-label={t("tabs.events")} className="divide-y divide-line/60">
        {shown.map((event) => (
          <Row key={event.id} event={event} />
        ))}
      </ol>
      <LoadMore more={more} busy={false} onMore={loadMore} />
    </div>
  );
}

function Row({ event }: { event: DeploymentEvent }) {
  const { t } = useTranslation("deployments");
  const name = (state: string) => t(`states.${state}`, { defaultValue: state });
  return (
    <li className="flex min-h-8 flex-wrap items-center gap-x-3 px-4 py-1">
      <span className="w-24 shrink-0 text-soft">
        <Time at={event.ts} />
      </span>
      <span className="w-44 shrink-0 font-medium">{t(`eventType.${event.type}`, { defaultValue: event.type })}</span>
      {event.to ? (
        <span className="shrink-0 text-soft">
          {event.from ? (
            <>
              {name(event.from)} <span aria-hidden>→</span>{" "}
            </>
          ) : null}
          <span className="text-ink">{name(event.to)}</span>
        </span>
      ) : null}
      <UntrustedText
        text={event.message ?? event.reason ?? ""}
        longest={500}
        className="min-w-0 flex-1 max-md:basis-full"
      />
      <span className="text-soft">
        {t(`actor.${event.actor_kind}`, { defaultValue: event.actor_kind })}{" "}
        {event.actor_id ? <UntrustedText text={event.actor_id} longest={64} className="font-mono text-xs" /> : null}
      </span>
    </li>
  );
}
