import { useTranslation } from "react-i18next";
import { formatDuration } from "@/lib/format";
import { useFormats } from "@/lib/prefs";
import { Fact, FactList, Labels, RunFacts } from "@/screens/job/overview/Facts";
import { Hparams, record } from "@/screens/job/overview/Hparams";
import { Progress } from "@/screens/job/overview/OverviewTab";
import { Badge, CopyButton, Duration, Nothing, Num, Time, UntrustedText } from "@/ui";
import type { Run } from "./use-runs";

export function RunOverview({ run, live }: { run: Run; live: boolean }) {
  const { t } = useTranslation("runs");
  const { tag } = useFormats();
  const lock = record(run.recipe_lock) as { name?: string; version?: string };
  return (
    <div className="grid gap-5 px-4 py-4 md:px-6 xl:grid-cols-[minmax(0,1fr)_22rem]">
      <div className="grid min-w-0 content-start gap-5">
        <Progress run={run} live={live} to="/runs/$id/{-$tab}" page={run.id} />
        <Hparams id={run.id} live={live} />
      </div>
      <aside className="grid min-w-0 content-start gap-5" aria-label={t("facts.title", { ns: "job" })}>
        <FactList>
          <Fact name={t("end")}>
            {run.end_reason ? t(`end.${run.end_reason}`, { ns: "jobs", defaultValue: run.end_reason }) : <Nothing />}
          </Fact>
          <Fact name={t("created")}>
            <Time at={run.created_at} />
          </Fact>
          <Fact name={t("duration")}>
            <Duration from={run.started_at} to={run.ended_at} />
          </Fact>
          <Fact name={t("attempts")}>
            <Num value={run.attempts} />
          </Fact>
          {lock.name ? (
            <>
              <Fact name={t("recipe")}>
                <UntrustedText text={lock.name} /> <span className="text-soft">{lock.version}</span>
              </Fact>
              <Fact name={t("digest")}>
                <span className="flex items-center font-mono text-xs">
                  <span className="truncate">{run.recipe_digest}</span>
                  <CopyButton text={run.recipe_digest} />
                </span>
              </Fact>
            </>
          ) : (
            <Fact name={t("recipe")}>
              <Badge>{t("noJobBadge")}</Badge>
            </Fact>
          )}
          {live && run.silence_s !== null ? (
            <Fact name={t("silence")}>{t("silenceIs", { time: formatDuration(run.silence_s, tag) })}</Fact>
          ) : null}
          <RunFacts run={run} />
          <Fact name={t("labels")}>
            <Labels labels={run.labels} />
          </Fact>
        </FactList>
      </aside>
    </div>
  );
}
