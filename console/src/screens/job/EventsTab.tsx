import { useMemo } from "react";
import { useTranslation } from "react-i18next";
import type { Job } from "@/screens/jobs/job";
import { type Column, EmptyState, ErrorPanel, LoadMore, Nothing, Table, Time, UntrustedText } from "@/ui";
import { type JobEvent, useEvents } from "./api";

const idOf = (event: JobEvent) => event.id;

// EventsTab lists what happened to a job and who did it, oldest first.
export function EventsTab({ job }: { job: Job }) {
  const { t } = useTranslation("job");
  const events = useEvents(job);
  const columns = useMemo<Column<JobEvent>[]>(
    () => [
      { id: "time", header: t("events.time"), width: "8rem", cell: (e) => <Time at={e.ts} /> },
      {
        id: "type",
        header: t("events.type"),
        width: "9rem",
        cell: (e) => t(`eventType.${e.type.replaceAll(".", "_")}`, { defaultValue: e.type }),
      },
      { id: "change", header: t("events.change"), width: "13rem", cell: (e) => <Change event={e} /> },
      {
        id: "message",
        header: t("events.reason"),
        width: "minmax(14rem,2fr)",
        cell: (e) => <UntrustedText text={[e.reason, e.message].filter(Boolean).join(": ")} longest={500} />,
      },
      { id: "actor", header: t("events.actor"), width: "minmax(11rem,1fr)", cell: (e) => <Actor event={e} /> },
    ],
    [t],
  );
  if (events.error && events.rows.length === 0) return <ErrorPanel error={events.error} onRetry={events.refetch} />;
  if (!events.pending && events.rows.length === 0)
    return <EmptyState title={t("events.none")} why={t("events.noneWhy")} />;
  return (
    <Table
      label={t("tabs.events")}
      rows={events.rows}
      columns={columns}
      rowId={idOf}
      pending={events.pending}
      footer={<LoadMore more={events.more} busy={events.loadingMore} onMore={events.loadMore} />}
    />
  );
}

function Change({ event }: { event: JobEvent }) {
  const { t } = useTranslation("job");
  const name = (state: string) => t(`states.${state}`, { defaultValue: state });
  if (!event.to) return <Nothing />;
  return event.from ? (
    <>
      <span className="text-soft">{name(event.from)}</span> <span aria-hidden>→</span>{" "}
      <span className="sr-only">{t("events.to")}</span>
      {name(event.to)}
    </>
  ) : (
    name(event.to)
  );
}

function Actor({ event }: { event: JobEvent }) {
  const { t } = useTranslation("job");
  return (
    <span>
      {t(`actor.${event.actor_kind}`, { defaultValue: event.actor_kind })}{" "}
      {event.actor_id ? (
        <UntrustedText text={event.actor_id} longest={64} className="font-mono text-xs text-soft" />
      ) : null}
    </span>
  );
}
