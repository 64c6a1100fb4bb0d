import { useTranslation } from "react-i18next";
import { Duration, ErrorNote, Nothing, Num, SkeletonLines, UntrustedText } from "@/ui";
import { PathLink } from "@/ui/PathLink";
import { cell, number, SlurmTable } from "./SlurmTable";
import { mostQueued, type QueueEntry, useHeld } from "./slurm";

// mostShown is how many held jobs the table has.
const mostShown = 100;

// SlurmHeld is the table of the jobs that Slurm holds, with Slurm's reason.
export function SlurmHeld({ pools }: { pools: readonly string[] }) {
  const { t } = useTranslation("fleets");
  const { data, error } = useHeld(pools);
  if (error && !data) return <ErrorNote error={error} />;
  if (!data) return <SkeletonLines lines={3} />;
  const { jobs, more } = data;
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] gap-2">
      <SlurmTable
        title={t("slurm.held")}
        empty={jobs.length === 0 ? t("slurm.noHeld") : null}
        head={[
          { name: t("slurm.job") },
          { name: t("pools") },
          { name: t("nodes"), numeric: true },
          { name: t("slurm.gpus"), numeric: true },
          { name: t("slurm.reason") },
          { name: t("slurm.detail") },
          { name: t("slurm.since"), numeric: true },
        ]}
      >
        <tbody className="divide-y">
          {jobs.slice(0, mostShown).map((job, at) => (
            <HeldRow key={job.job_id ?? `hidden-${at}`} job={job} />
          ))}
        </tbody>
      </SlurmTable>
      {jobs.length > mostShown ? <Note text={t("slurm.heldFirst", { count: mostShown, total: jobs.length })} /> : null}
      {more ? <Note text={t("slurm.heldMore", { count: mostQueued })} /> : null}
    </div>
  );
}

function Note({ text }: { text: string }) {
  return <p className="text-xs text-soft">{text}</p>;
}

function HeldRow({ job }: { job: QueueEntry }) {
  const { t } = useTranslation("fleets");
  return (
    <tr>
      <th scope="row" className={`${cell} font-medium`}>
        {job.job_id ? (
          <PathLink href={`/jobs/${job.job_id}`}>
            <UntrustedText text={job.name ?? job.job_id} longest={80} />
          </PathLink>
        ) : (
          <span className="font-normal text-soft">{t("hiddenJob", { ns: "cluster" })}</span>
        )}
      </th>
      <td className={cell}>
        <UntrustedText text={[...new Set(job.pools)].join(", ")} longest={128} />
      </td>
      <td className={number}>
        <Num value={job.nodes} />
      </td>
      <td className={number}>
        <Num value={job.gpus} />
      </td>
      <td className={cell}>
        <UntrustedText text={job.reason} longest={128} />
      </td>
      <td className="min-w-48 px-3 py-1.5">
        {job.reason_detail ? <UntrustedText text={job.reason_detail} longest={300} /> : <Nothing />}
      </td>
      <td className={number}>
        <Duration from={job.since} />
      </td>
    </tr>
  );
}
