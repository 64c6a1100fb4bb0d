import { CircleCheck, CircleMinus, CircleX } from "lucide-react";
import { useTranslation } from "react-i18next";
import { toApiError } from "@/api/error";
import { cx } from "@/lib/cx";
import { ErrorNote, Spinner, UntrustedText } from "@/ui";
import type { usePreflight, Verdict } from "./api";
import { Quota } from "./Quota";
import { Relock } from "./Relock";
import type { RecipeOfSpec } from "./relocked";

const icons = { pass: CircleCheck, fail: CircleX, skip: CircleMinus };
const tones = { pass: "text-accent", fail: "text-bad", skip: "text-soft" };

type Props = {
  preflight: ReturnType<typeof usePreflight>;
  spec: Record<string, unknown> | null;
  onRelock: (recipe: RecipeOfSpec) => void;
};

// Gates shows what the server would decide about the submission, and what to do where it would refuse.
export function Gates({ preflight, spec, onRelock }: Props) {
  const { t } = useTranslation("submit");
  const { data, error, current } = preflight;
  const problems = error ? toApiError(error).problems : [];
  return (
    <section aria-label={t("preflight")} aria-busy={!current} className="rounded-lg border bg-card">
      <header className="flex h-10 items-center gap-2 border-b px-4">
        <h2 className="text-sm font-semibold">{t("preflight")}</h2>
        {spec !== null && !current && !error ? <Spinner /> : null}
        {data && current ? (
          <span role="status" className={cx("ml-auto text-xs font-medium", data.ok ? "text-accent" : "text-bad")}>
            {t(data.ok ? "admitted" : "refused")}
          </span>
        ) : null}
      </header>
      {spec === null ? (
        <p className="px-4 py-3 text-sm text-soft">{t("fixYaml")}</p>
      ) : error ? (
        <div className="grid gap-2 p-3">
          <ErrorNote error={error} />
          <ul className="grid gap-1 text-xs">
            {problems.slice(0, 20).map((problem) => (
              <li key={problem.loc.join(".")}>
                <UntrustedText text={problem.loc.slice(2).join(".")} className="font-mono" />:{" "}
                <UntrustedText text={problem.msg} longest={300} />
              </li>
            ))}
          </ul>
        </div>
      ) : (
        <ol className={cx("divide-y", !current && "opacity-60")}>
          {data?.gates.map((gate) => (
            <Gate key={gate.gate} gate={gate} spec={spec} onRelock={onRelock} />
          ))}
        </ol>
      )}
    </section>
  );
}

type GateProps = { gate: Verdict; spec: Record<string, unknown>; onRelock: Props["onRelock"] };

function Gate({ gate, spec, onRelock }: GateProps) {
  const { t } = useTranslation("submit");
  const status = gate.status in icons ? (gate.status as keyof typeof icons) : "skip";
  const Icon = icons[status];
  return (
    <li className="px-4 py-1.5 text-sm">
      <span className="flex min-h-6 items-center gap-2">
        <Icon size={14} aria-hidden className={cx("shrink-0", tones[status])} />
        {t(`gate.${gate.gate}`, { defaultValue: gate.gate })}
        <span className={status === "pass" ? "sr-only" : "ml-auto text-xs text-soft"}>{t(`status.${status}`)}</span>
      </span>
      {status === "fail" ? (
        <div className="mt-1 mb-1.5 grid gap-2 rounded-md bg-bad-tint px-3 py-2">
          <p className="[overflow-wrap:anywhere] text-bad">
            <UntrustedText text={(gate.detail ?? "").replace(`${gate.gate}: `, "")} longest={2000} />
          </p>
          <p className="text-xs">{t(`remedy.${gate.gate}`, { defaultValue: t("remedy.other") })}</p>
          {gate.gate === "quota" ? <Quota /> : null}
          {gate.gate === "recipe_handshake" ? <Relock spec={spec} onRelock={onRelock} /> : null}
        </div>
      ) : null}
    </li>
  );
}
