import { useQuery } from "@tanstack/react-query";
import { Check } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { session } from "@/auth/browser";
import { firstDeploymentCommand, firstJobCommand, logInCommand } from "@/lib/commands";
import { cx } from "@/lib/cx";
import { Button, CodeBlock } from "@/ui";

const key = "signalbox.onboarding";
const every = 5_000;
// The list has the deployments of others too, and no filter by owner.
const newest = 200;

// Onboarding leads a new user from the first token to the first deployment. Each step is ticked when it is done, whichever way
// it was done. It goes when all are done, or when the user sends it away.
export function Onboarding({ hasJob, project }: { hasJob: boolean; project: string }) {
  const { t } = useTranslation("overview");
  const [away, setAway] = useState(() => stored());
  const steps = useSteps(hasJob, project, !away);
  if (away || steps === null || steps.every((step) => step.done)) return null;
  const current = steps.findIndex((step) => !step.done);
  const dismiss = () => {
    setAway(true);
    try {
      localStorage.setItem(key, "done");
    } catch {
      // Without storage it is back when the page is opened again.
    }
  };
  return (
    <section aria-label={t("start")} className="rounded-lg border bg-card">
      <div className="flex items-center justify-between gap-2 border-b px-4 py-2">
        <h2 className="text-sm font-semibold">{t("start")}</h2>
        <Button variant="quiet" size="sm" onClick={dismiss}>
          {t("dismiss")}
        </Button>
      </div>
      <ol>
        {steps.map((step, at) => (
          <li key={step.id} className="flex gap-3 border-b px-4 py-3 last:border-0">
            <span
              className={cx(
                "mt-0.5 flex size-5 shrink-0 items-center justify-center rounded-full border text-2xs font-semibold",
                step.done ? "border-accent bg-accent text-on-accent" : "border-edge text-soft",
              )}
            >
              {step.done ? <Check size={12} strokeWidth={3} aria-label={t("done")} /> : at + 1}
            </span>
            <div className="min-w-0 flex-1">
              <h3 className={cx("text-sm", step.done ? "text-soft line-through" : "font-medium")}>
                {t(`step.${step.id}`)}
              </h3>
              {at === current ? (
                <>
                  <p className="mt-0.5 mb-2 text-sm text-soft">{t(`why.${step.id}`)}</p>
                  <CodeBlock code={step.command} label={t("command")} />
                </>
              ) : null}
            </div>
          </li>
        ))}
      </ol>
    </section>
  );
}

type Step = { id: "terminal" | "job" | "deployment"; done: boolean; command: string };

// useSteps returns null until it is known which steps are done.
function useSteps(hasJob: boolean, project: string, wanted: boolean): Step[] | null {
  const options = { enabled: wanted, refetchInterval: every };
  const sessions = useQuery({
    queryKey: ["sessions", "onboarding"],
    queryFn: ({ signal }) => call(api.GET("/api/profile/sessions", { params: { query: { limit: 2 } }, signal })),
    ...options,
  });
  const deployments = useQuery({
    queryKey: ["deployments", "onboarding"],
    queryFn: ({ signal }) => call(api.GET("/api/model-deployments", { params: { query: { limit: newest } }, signal })),
    ...options,
  });
  if (!sessions.data || !deployments.data) return null;
  return [
    {
      id: "terminal",
      done: hasJob || sessions.data.length > 1,
      command: logInCommand(location.origin),
    },
    { id: "job", done: hasJob, command: firstJobCommand(project) },
    {
      id: "deployment",
      done: deployments.data.some((deployment) => deployment.owner === session.user?.username),
      command: firstDeploymentCommand(project),
    },
  ];
}

function stored(): boolean {
  try {
    return localStorage.getItem(key) === "done";
  } catch {
    return false;
  }
}
