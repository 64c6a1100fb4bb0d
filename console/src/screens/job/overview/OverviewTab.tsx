import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";
import type { Job } from "@/screens/jobs/job";
import { hasEnded } from "@/screens/jobs/job";
import type { Run } from "../api";
import { Attempts } from "./Attempts";
import { Facts } from "./Facts";
import { Hparams } from "./Hparams";
import { Latest } from "./Latest";
import { Why } from "./Why";

// OverviewTab shows the cause of a job's state, its newest values, its attempts and what it requests.
export function OverviewTab({ job, run }: { job: Job; run: Run | undefined }) {
  const { t } = useTranslation("job");
  const live = !hasEnded(job);
  return (
    <div className="grid gap-5 px-4 py-4 md:px-6 xl:grid-cols-[minmax(0,1fr)_22rem]">
      <div className="grid min-w-0 content-start gap-5">
        <Why job={job} />
        <Section title={t("latest.title")}>
          <Latest id={job.run_id} live={live} to="/jobs/$id/{-$tab}" page={job.id} />
        </Section>
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
