import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { texts } from "@/i18n/i18n";
import { PartOf, part } from "@/lib/part";
import type { Job } from "@/screens/jobs/job";
import { hasEnded } from "@/screens/jobs/job";
import { SkeletonLines } from "@/ui";
import type { Run } from "../api";
import { Attempts } from "./Attempts";
import { Facts } from "./Facts";
import { Hparams } from "./Hparams";
import { Why } from "./Why";

const charts = part(() => import("./Charts").then((m) => m.default));
const logTail = part(() => import("./LogTail").then((m) => m.default));
const served = part(async () => {
  const [module] = await Promise.all([import("./Served"), texts("deployments")]);
  return module.default;
});

// OverviewTab shows the cause of a job's state, its curves, the end of its log, its attempts and what it requests.
export function OverviewTab({ job, run }: { job: Job; run: Run | undefined }) {
  const { t } = useTranslation("job");
  const live = !hasEnded(job);
  return (
    <div className="grid gap-5 px-4 py-4 md:px-6 xl:grid-cols-[minmax(0,1fr)_22rem]">
      <div className="grid min-w-0 content-start gap-5">
        <Why job={job} />
        {run ? <Progress run={run} live={live} to="/jobs/$id/{-$tab}" page={job.id} /> : null}
        <Section title={t("attempts.title")}>
          <Attempts job={job} />
        </Section>
      </div>
      <aside className="grid min-w-0 content-start gap-5" aria-label={t("facts.title")}>
        <Facts job={job} run={run} />
        <Hparams id={job.run_id} live={live} />
      </aside>
    </div>
  );
}

type Place = { to: "/jobs/$id/{-$tab}" | "/runs/$id/{-$tab}"; page: string };

// Progress has the curves of a run and the end of its log. page is the id of the page that has their tabs.
export function Progress({ run, live, to, page }: { run: Run; live: boolean } & Place) {
  const { t } = useTranslation("job");
  return (
    <>
      <Section title={t("curves.title")}>
        <PartOf part={charts} props={{ run, live, to, page }} fallback={<SkeletonLines lines={6} />} />
      </Section>
      {live ? null : <PartOf part={served} props={{ runId: run.id }} fallback={null} />}
      <Section title={t("logTail.title")}>
        <PartOf part={logTail} props={{ runId: run.id, live, to, page }} fallback={<SkeletonLines lines={4} />} />
      </Section>
    </>
  );
}

export function Section({ title, end, children }: { title: string; end?: ReactNode; children: ReactNode }) {
  return (
    <section className="min-w-0">
      <div className="mb-1.5 flex min-h-6 items-center gap-2">
        <h2 className="text-sm font-semibold">{title}</h2>
        {end}
      </div>
      {children}
    </section>
  );
}
