import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { gpusOf, type Job, poolsOf, recipeOf } from "@/screens/jobs/job";
import { Badge, Bytes, Nothing, Num, Seconds, Time, UntrustedText } from "@/ui";
import type { Run } from "../api";

// Facts are the properties of a job that are not about its state.
export function Facts({ job, run }: { job: Job; run: Run | undefined }) {
  const { t } = useTranslation("job");
  const recipe = recipeOf(job);
  const { checkpoint } = job;
  return (
    <FactList>
      <Fact name={t("facts.recipe")}>
        <UntrustedText text={recipe.name} /> <span className="text-soft">{recipe.version}</span>
      </Fact>
      <Fact name={t("facts.gpus")}>
        <Num value={gpusOf(job)} />
      </Fact>
      <Fact name={t("facts.pools")}>{poolsOf(job).join(", ") || <Nothing />}</Fact>
      <Fact name={t("facts.priority")}>
        <Num value={job.priority} />
      </Fact>
      <Fact name={t("facts.limit")}>
        <Seconds value={job.limits?.running_s} />
      </Fact>
      <Fact name={t("facts.checkpoint")}>
        {checkpoint ? (
          <span className="tabular">
            {checkpoint.step === null ? null : t("facts.step", { step: checkpoint.step })}{" "}
            <Bytes value={checkpoint.size_bytes} />{" "}
            <span className="text-soft">
              <Time at={checkpoint.created_at} />
            </span>
          </span>
        ) : (
          <Nothing />
        )}
      </Fact>
      <RunFacts run={run} />
      <Fact name={t("facts.labels")}>
        <Labels labels={job.labels} />
      </Fact>
    </FactList>
  );
}

// RunFacts are the properties of a run that its job does not have.
export function RunFacts({ run }: { run: Run | undefined }) {
  const { t } = useTranslation("job");
  if (!run) return null;
  return (
    <>
      {run.parents.length > 0 ? (
        <Fact name={t("facts.parents")}>
          {run.parents.map((parent) => (
            <span key={parent.run_id} className="block">
              {t(`parent.${parent.kind}`, { defaultValue: parent.kind })}{" "}
              <Link
                to="/runs/$id/{-$tab}"
                params={{ id: parent.run_id }}
                className="font-mono text-xs text-accent hover:underline"
              >
                {parent.run_id}
              </Link>
            </span>
          ))}
        </Fact>
      ) : null}
      {run.protected ? (
        <Fact name={t("facts.protected")}>
          <Badge tone="warn">{t("facts.protectedYes")}</Badge>
        </Fact>
      ) : null}
      {run.tags.length > 0 ? (
        <Fact name={t("facts.tags")}>
          <span className="flex flex-wrap gap-1">
            {run.tags.map((tag) => (
              <Badge key={tag}>
                <UntrustedText text={tag} longest={64} />
              </Badge>
            ))}
          </span>
        </Fact>
      ) : null}
    </>
  );
}

export function Labels({ labels }: { labels: Record<string, string> }) {
  const names = Object.keys(labels).sort();
  if (names.length === 0) return <Nothing />;
  return (
    <span className="flex flex-wrap gap-1">
      {names.map((name) => (
        <Badge key={name}>
          <UntrustedText text={`${name}=${labels[name]}`} longest={120} className="max-w-60 truncate" />
        </Badge>
      ))}
    </span>
  );
}

export function FactList({ children }: { children: ReactNode }) {
  return (
    <dl className="grid grid-cols-[minmax(7rem,auto)_minmax(0,1fr)] gap-x-3 gap-y-1.5 rounded-lg border bg-card px-3.5 py-2.5 text-sm">
      {children}
    </dl>
  );
}

export function Fact({ name, children }: { name: ReactNode; children: ReactNode }) {
  return (
    <>
      <dt className="max-w-44 min-w-0 text-soft [overflow-wrap:anywhere]">{name}</dt>
      <dd className="min-w-0 [overflow-wrap:anywhere]">{children}</dd>
    </>
  );
}
