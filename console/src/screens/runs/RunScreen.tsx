import { useTranslation } from "react-i18next";
import { Identity } from "@/screens/job/Identity";
import { record } from "@/screens/job/overview/Hparams";
import { Pending } from "@/screens/job/Pending";
import { SpecTab } from "@/screens/job/SpecTab";
import { TabFrame } from "@/screens/job/TabFrame";
import { Badge, PageHeader, StateBadge } from "@/ui";
import { runRoute } from "./area";
import { EventsOfJob } from "./EventsOfJob";
import { NotesTab } from "./NotesTab";
import { RunActions } from "./RunActions";
import { RunOverview } from "./RunOverview";
import { useLiveRun } from "./use-live-run";
import type { Run } from "./use-runs";

// RunScreen is one run by its id. It opens also after its job was deleted.
export function RunScreen() {
  const { t } = useTranslation("runs");
  const { id, tab } = runRoute.useParams();
  const { run, live, error, retry } = useLiveRun(id);
  if (!run) return <Pending id={id} error={error} onRetry={retry} />;
  return (
    <>
      <PageHeader
        name={run.name}
        lead={
          <>
            <StateBadge state={run.state} />
            {run.archived ? <Badge>{t("archived")}</Badge> : null}
          </>
        }
        actions={<RunActions run={run} />}
      >
        <Identity id={run.id} project={run.project} owner={run.owner} other={{ job: run.job_id }} />
      </PageHeader>
      <TabFrame
        to="/runs/$id/{-$tab}"
        id={run.id}
        tab={tab}
        about={{ jobId: run.job_id ?? undefined, runId: run.id, live }}
        own={{
          overview: () => <RunOverview run={run} live={live} />,
          // A run that was made without a job has no recipe and no spec.
          ...("name" in record(run.recipe_lock) ? { spec: () => <Spec run={run} /> } : {}),
          events: () => <EventsOfJob id={run.job_id} live={live} />,
          notes: () => <NotesTab run={run} />,
        }}
      />
    </>
  );
}

function Spec({ run }: { run: Run }) {
  return (
    <SpecTab spec={{ recipe_lock: run.recipe_lock, bindings: run.bindings }} digest={run.spec_digest} name={run.name} />
  );
}
