import { hasEnded } from "@/screens/jobs/job";
import { PageHeader, ReconnectingBar, StateBadge } from "@/ui";
import { JobActions } from "./actions/JobActions";
import { useJob, useRun } from "./api";
import { jobRoute } from "./area";
import { EventsTab } from "./EventsTab";
import { Identity } from "./Identity";
import { OverviewTab } from "./overview/OverviewTab";
import { Pending } from "./Pending";
import { SpecTab } from "./SpecTab";
import { TabFrame } from "./TabFrame";
import { Timeline } from "./Timeline";

// JobScreen is one job with all that its run reported. It changes while the job does.
export function JobScreen() {
  const { id, tab } = jobRoute.useParams();
  const { job, error, retry, put, stream } = useJob(id);
  const run = useRun(job?.run_id);
  if (!job) return <Pending id={id} error={error} onRetry={retry} />;
  const live = !hasEnded(job);
  return (
    <>
      <PageHeader
        name={job.name}
        lead={<StateBadge state={job.state} />}
        actions={<JobActions job={job} shared={run.data?.protected === false} onChanged={put} />}
      >
        <Identity id={job.id} project={job.project} owner={job.owner} other={{ run: job.run_id }} />
        {tab === undefined || tab === "overview" ? <Timeline job={job} /> : null}
      </PageHeader>
      <ReconnectingBar state={stream} />
      <TabFrame
        to="/jobs/$id/{-$tab}"
        id={job.id}
        tab={tab}
        about={{ jobId: job.id, runId: job.run_id, live }}
        own={{
          overview: () => <OverviewTab job={job} run={run.data} />,
          spec: () => <SpecTab spec={job.spec} digest={job.spec_digest} name={job.name} />,
          events: () => <EventsTab job={job} />,
        }}
      />
    </>
  );
}
