import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { visible } from "@/lib/untrusted";
import type { Job } from "@/screens/jobs/job";
import { Duration, ErrorNote, Nothing, Num, SkeletonLines, StateBadge, Time, UntrustedText } from "@/ui";
import { type Attempt, useAttempts } from "../api";

const head = "h-8 px-2.5 text-left text-xs font-medium whitespace-nowrap text-soft";
const cell = "h-8 px-2.5 whitespace-nowrap";

// Attempts is the table of a job's executions, newest first.
export function Attempts({ job }: { job: Job }) {
  const { t } = useTranslation("job");
  const { data, error } = useAttempts(job);
  if (error && !data) return <ErrorNote error={error} />;
  if (!data) return <SkeletonLines lines={2} />;
  if (data.length === 0) return <p className="text-soft">{t("attempts.none")}</p>;
  const places = placesOf(data);
  const columns = ["number", "state", ...places, "started", "duration", "exit", "end"];
  return (
    <div
      className="scroll-thin overflow-x-auto rounded-lg border bg-card"
      role="group"
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
      tabIndex={0}
      aria-label={t("attempts.title")}
    >
      <table className="w-full text-sm">
        <thead>
          <tr className="border-b">
            {columns.map((name) => (
              <th key={name} scope="col" className={numeric(name) ? `${head} text-right` : head}>
                {t(`attempts.${name}`)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {data.toReversed().map((attempt) => (
            <Row key={attempt.number} attempt={attempt} places={places} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

// placesOf returns the columns with where attempts run. The node of an attempt on Slurm is the host of its agent, so it is left
// out if all attempts run there.
function placesOf(attempts: readonly Attempt[]): ("node" | "slurm")[] {
  const slurm = attempts.filter((attempt) => attempt.batch_id).length;
  if (slurm === 0) return ["node"];
  return slurm < attempts.length ? ["node", "slurm"] : ["slurm"];
}

function Row({ attempt, places }: { attempt: Attempt; places: readonly string[] }) {
  const { t } = useTranslation("job");
  const end = attempt.end_reason
    ? t(`end.${attempt.end_reason}`, { ns: "jobs", defaultValue: attempt.end_reason })
    : "";
  return (
    <tr className="border-b last:border-b-0">
      <td className={`${cell} text-right`}>
        <Num value={attempt.number} />
      </td>
      <td className={cell}>
        <StateBadge state={attempt.state} />
        {attempt.phase && !attempt.ended_at ? (
          <span className="ml-2 text-soft">{t(`phase.${attempt.phase}`, { defaultValue: attempt.phase })}</span>
        ) : null}
      </td>
      {places.map((place) => (
        <td key={place} className={`${cell} font-mono text-xs`}>
          {place === "slurm" ? (
            <OnSlurm attempt={attempt} />
          ) : attempt.node_id ? (
            <Node id={attempt.node_id} />
          ) : (
            <Nothing />
          )}
        </td>
      ))}
      <td className={`${cell} text-right`}>
        <Time at={attempt.starting_at ?? attempt.created_at} />
      </td>
      <td className={`${cell} text-right`}>
        <Duration from={attempt.starting_at} to={attempt.ended_at} />
      </td>
      <td className={`${cell} text-right`}>
        <Num value={attempt.exit_code} />
      </td>
      <td className="h-8 min-w-32 px-2.5 py-1.5">
        {end || attempt.message ? (
          <span>
            {end}{" "}
            {attempt.message ? <UntrustedText text={attempt.message} longest={300} className="text-soft" /> : null}
          </span>
        ) : (
          <Nothing />
        )}
      </td>
    </tr>
  );
}

// Node leads to a node. The end of its id distinguishes it from others, and leaves room for the reason of the end.
function Node({ id }: { id: string }) {
  return (
    <Link to="/cluster/nodes/$id" params={{ id }} title={id} className="hover:underline">
      …{id.slice(-8)}
    </Link>
  );
}

// OnSlurm is the id of an attempt in its Slurm cluster, with its nodes once it has some.
function OnSlurm({ attempt }: { attempt: Attempt }) {
  const { t } = useTranslation("job");
  if (!attempt.batch_id) return <Nothing />;
  const nodes = visible(attempt.batch_nodes.join(", "), 200).text;
  return (
    <span title={nodes} className="inline-block max-w-60 truncate align-bottom">
      <UntrustedText text={attempt.batch_id} longest={64} />
      {nodes ? ` ${t("attempts.slurmNodes", { nodes })}` : null}
    </span>
  );
}

function numeric(name: string): boolean {
  return ["number", "started", "duration", "exit"].includes(name);
}
