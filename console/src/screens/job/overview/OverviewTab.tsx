import { lazy, type ReactNode, Suspense } from "react";
import { useTranslation } from "react-i18next";
import { texts } from "@/i18n/i18n";
import type { Job } from "@/screens/jobs/job";
import { hasEnded } from "@/screens/jobs/job";
import { SkeletonLines } from "@/ui";
import type { Run } from "../api";
import { Attempts } from "./Attempts";
import { Facts } from "./Facts";
import { Hparams } from "./Hparams";
import { Why } from "./Why";

const Charts = lazy(() => import("./Charts"));
const LogTail = lazy(() => import("./LogTail"));
const Served = lazy(async () => {
  const [module] = await Promise.all([import("./Served"), texts("deployments")]);
  return module;
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
        <Suspense fallback={<SkeletonLines lines={6} />}>
          <Charts run={run} live={live} to={to} page={page} />
        </Suspense>
      </Section>
      {live ? null : (
        <Suspense fallback={null}>
          <Served runId={run.id} />
        </Suspense>
      )}
      <Section title={t("logTail.title")}>
        <Suspense fallback={<SkeletonLines lines={4} />}>
          <LogTail runId={run.id} live={live} to={to} page={page} />
        </Suspense>
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
