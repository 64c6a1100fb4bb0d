import { useTranslation } from "react-i18next";
import { session } from "@/auth/browser";
import { useProfile } from "@/auth/profile";
import { PageBody, PageHeader, ReconnectingBar, StaleBar } from "@/ui";
import { useJobs } from "../jobs/use-jobs";
import { overviewRoute } from "./area";
import { MyJobs } from "./MyJobs";
import { Onboarding } from "./Onboarding";
import { RecentModels } from "./RecentModels";
import { RecentRuns } from "./RecentRuns";
import { Strip } from "./Strip";

// OverviewScreen shows what of the user needs attention, how much room is left, and what came out last.
export function OverviewScreen() {
  const { t } = useTranslation("overview");
  const { project } = overviewRoute.useSearch();
  const profile = useProfile();
  const live = useJobs({ owner: session.user?.username, project });
  return (
    <>
      <PageHeader name={t("title")} />
      <ReconnectingBar state={live.stream} />
      {live.stale ? <StaleBar error={live.stale} onRetry={live.retry} /> : null}
      <PageBody>
        <Strip />
        {live.pending ? null : (
          <Onboarding hasJob={live.rows.length > 0} project={project ?? profile.data?.default_project ?? "default"} />
        )}
        <MyJobs live={live} />
        <RecentRuns project={project} />
        <RecentModels project={project} />
      </PageBody>
    </>
  );
}
