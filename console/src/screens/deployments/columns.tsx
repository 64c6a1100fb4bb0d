import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { useTranslation } from "react-i18next";
import { type Column, Nothing, Num, StateBadge, Time, Tooltip, UntrustedText } from "@/ui";
import { useMetrics } from "./api";
import { type Deployment, total } from "./deployment";
import { useReason } from "./reason";

// The window of the figures in the list.
const seconds = 900;

export function useDeploymentColumns(): Column<Deployment>[] {
  const { t } = useTranslation("deployments");
  return useMemo(
    () => [
      { id: "state", header: t("state"), width: "7rem", fixed: true, cell: (row) => <State row={row} /> },
      {
        id: "name",
        header: t("name"),
        width: "minmax(10rem,1.4fr)",
        fixed: true,
        cell: (row) => (
          <Link to="/deployments/$id" params={{ id: row.id }} className="font-medium hover:underline">
            <UntrustedText text={row.name} longest={128} />
          </Link>
        ),
      },
      { id: "reason", header: t("health"), width: "minmax(12rem,2.4fr)", cell: (row) => <Health row={row} /> },
      {
        id: "revision",
        header: t("revision"),
        width: "5rem",
        numeric: true,
        cell: (row) => (row.promoted_revision ? <Num value={row.promoted_revision} /> : <Nothing />),
      },
      {
        id: "rate",
        header: t("perSecond"),
        width: "5.5rem",
        numeric: true,
        cell: (row) => <Figure id={row.id} of={(all) => all.calls / seconds} digits={3} />,
      },
      {
        id: "p95",
        header: t("p95ms"),
        width: "5.5rem",
        numeric: true,
        cell: (row) => <Figure id={row.id} of={(all) => all.p95} digits={0} />,
      },
      {
        id: "failed",
        header: t("failedCalls"),
        width: "5.5rem",
        numeric: true,
        cell: (row) => <Figure id={row.id} of={(all) => all.failed} digits={0} />,
      },
      {
        id: "project",
        header: t("project"),
        width: "minmax(6rem,0.7fr)",
        cell: (row) => <UntrustedText text={row.project} />,
      },
      {
        id: "owner",
        header: t("owner"),
        width: "minmax(6rem,0.7fr)",
        optional: true,
        cell: (row) => <UntrustedText text={row.owner} />,
      },
      {
        id: "created",
        header: t("created"),
        width: "6.5rem",
        numeric: true,
        cell: (row) => <Time at={row.created_at} />,
      },
      {
        id: "id",
        header: t("id"),
        width: "16.5rem",
        optional: true,
        cell: (row) => <span className="font-mono text-xs">{row.id}</span>,
      },
    ],
    [t],
  );
}

function State({ row }: { row: Deployment }) {
  return <StateBadge state={stateOf(row)} />;
}

// stateOf is what a user wants to know of a deployment: whether it serves calls.
export function stateOf(row: Pick<Deployment, "state" | "ready" | "reason" | "promoted_revision">): string {
  if (row.state !== "serving") return row.state;
  if (row.ready) return "ready";
  return row.promoted_revision === null ? "draft" : row.reason?.phase === "failed" ? "failed" : "not_ready";
}

function Health({ row }: { row: Deployment }) {
  const text = useReason(row.reason);
  if (!text) return <Nothing />;
  return (
    <Tooltip text={text}>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: the whole text is in the tooltip */}
      <span tabIndex={0} className="block truncate text-soft">
        {text}
      </span>
    </Tooltip>
  );
}

function Figure({
  id,
  of,
  digits,
}: {
  id: string;
  of: (all: ReturnType<typeof total>) => number | null;
  digits: number;
}) {
  const { data } = useMetrics(id, seconds, seconds, { every: 30_000 });
  return data ? <Num value={of(total(data.points))} digits={digits} /> : <Nothing />;
}
