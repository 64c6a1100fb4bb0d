import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { useTranslation } from "react-i18next";
import { type Column, Duration, Nothing, Num, StateBadge, Time, UntrustedText } from "@/ui";
import { gpusOf, type Job, poolsOf, recipeOf } from "./job";
import { NodeCell } from "./NodeCell";
import { Progress } from "./Progress";

export function useJobColumns(): Column<Job>[] {
  const { t } = useTranslation("jobs");
  return useMemo(
    () => [
      {
        id: "state",
        header: t("state"),
        width: "7rem",
        fixed: true,
        cell: (job) => <StateBadge state={job.state} />,
      },
      {
        id: "name",
        header: t("name"),
        width: "minmax(9rem,2fr)",
        fixed: true,
        cell: (job) => (
          <Link
            to="/jobs/$id/{-$tab}"
            params={{ id: job.id, tab: undefined }}
            className="min-w-0 truncate hover:underline"
          >
            <UntrustedText text={job.name} longest={128} className="font-medium" />
          </Link>
        ),
      },
      { id: "progress", header: t("progress"), width: "minmax(8rem,1.3fr)", cell: (job) => <Progress job={job} /> },
      {
        id: "owner",
        header: t("owner"),
        width: "minmax(4.75rem,0.7fr)",
        cell: (job) => <UntrustedText text={job.owner} />,
      },
      {
        id: "project",
        header: t("project"),
        width: "minmax(4.75rem,0.7fr)",
        cell: (job) => <UntrustedText text={job.project} />,
      },
      {
        id: "recipe",
        header: t("recipe"),
        width: "minmax(11rem,1.2fr)",
        cell: (job) => {
          const { name, version } = recipeOf(job);
          return (
            <span title={`${name} ${version}`} className="flex gap-1.5">
              <span className="truncate">{name}</span>
              <span className="shrink-0 text-soft">{version}</span>
            </span>
          );
        },
      },
      { id: "gpus", header: t("gpus"), width: "4rem", numeric: true, cell: (job) => <Num value={gpusOf(job)} /> },
      { id: "pool", header: t("pool"), width: "6rem", optional: true, cell: (job) => poolsOf(job).join(", ") },
      { id: "node", header: t("node"), width: "9rem", optional: true, cell: (job) => <NodeCell job={job} /> },
      {
        id: "duration",
        header: t("duration"),
        width: "5rem",
        numeric: true,
        cell: (job) =>
          job.starting_at ? <Duration from={job.starting_at} to={job.ended_at ?? job.paused_at} /> : <Nothing />,
      },
      {
        id: "created",
        header: t("created"),
        width: "6rem",
        numeric: true,
        cell: (job) => <Time at={job.created_at} />,
      },
      {
        id: "id",
        header: t("id"),
        width: "16.5rem",
        optional: true,
        cell: (job) => <span className="font-mono text-xs">{job.id}</span>,
      },
    ],
    [t],
  );
}
