import { useMemo } from "react";
import { useTranslation } from "react-i18next";
import { record } from "@/screens/job/overview/Hparams";
import { Badge, type Column, Duration, Nothing, Num, StateBadge, Time, UntrustedText } from "@/ui";
import type { Run } from "./use-runs";

export function useRunColumns(): Column<Run>[] {
  const { t } = useTranslation("runs");
  return useMemo(
    () => [
      {
        id: "state",
        header: t("state"),
        width: "7rem",
        fixed: true,
        cell: (run) => <StateBadge state={run.state} />,
      },
      {
        id: "name",
        header: t("name"),
        width: "minmax(10rem,2fr)",
        fixed: true,
        cell: (run) => <UntrustedText text={run.name} longest={128} className="font-medium" />,
      },
      {
        id: "tags",
        header: t("tags"),
        width: "minmax(6rem,1fr)",
        cell: (run) => <Tags tags={run.tags} archived={run.archived} />,
      },
      { id: "recipe", header: t("recipe"), width: "minmax(10rem,1.2fr)", cell: (run) => <Recipe run={run} /> },
      {
        id: "owner",
        header: t("owner"),
        width: "minmax(5rem,0.7fr)",
        cell: (run) => <UntrustedText text={run.owner} />,
      },
      {
        id: "project",
        header: t("project"),
        width: "minmax(5rem,0.7fr)",
        cell: (run) => <UntrustedText text={run.project} />,
      },
      {
        id: "attempts",
        header: t("attempts"),
        width: "5rem",
        numeric: true,
        cell: (run) => <Num value={run.attempts} />,
      },
      {
        id: "duration",
        header: t("duration"),
        width: "6rem",
        numeric: true,
        cell: (run) => (run.started_at ? <Duration from={run.started_at} to={run.ended_at} /> : <Nothing />),
      },
      {
        id: "created",
        header: t("created"),
        width: "6.5rem",
        numeric: true,
        cell: (run) => <Time at={run.created_at} />,
      },
      {
        id: "ended",
        header: t("ended"),
        width: "6.5rem",
        numeric: true,
        optional: true,
        cell: (run) => <Time at={run.ended_at} />,
      },
      {
        id: "id",
        header: t("id"),
        width: "16.5rem",
        optional: true,
        cell: (run) => <span className="font-mono text-xs">{run.id}</span>,
      },
    ],
    [t],
  );
}

function Recipe({ run }: { run: Run }) {
  const { t } = useTranslation("runs");
  const { name = "", version = "" } = record(run.recipe_lock) as { name?: string; version?: string };
  if (name === "") return <Badge>{t("noJobBadge")}</Badge>;
  return (
    <span title={`${name} ${version}`} className="flex gap-1.5">
      <UntrustedText text={name} className="truncate" />
      <UntrustedText text={version} className="shrink-0 text-soft" />
    </span>
  );
}

function Tags({ tags, archived }: { tags: string[]; archived: boolean }) {
  const { t } = useTranslation("runs");
  if (tags.length === 0 && !archived) return <Nothing />;
  return (
    <span className="flex gap-1 overflow-hidden">
      {archived ? <Badge>{t("archived")}</Badge> : null}
      {tags.slice(0, 4).map((tag) => (
        <Badge key={tag} tone="info">
          <UntrustedText text={tag} longest={24} />
        </Badge>
      ))}
    </span>
  );
}
