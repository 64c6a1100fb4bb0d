import { Check, X } from "lucide-react";
import { useTranslation } from "react-i18next";
import { Num, UntrustedText } from "@/ui";

type Probe = { name: string; ok: boolean; detail: string; ms: number | null };

// probesOf reads the report of an engine's probes, whose form the API leaves open.
export function probesOf(report: unknown): Probe[] {
  const list = typeof report === "object" && report !== null ? (report as { probes?: unknown }).probes : null;
  if (!Array.isArray(list)) return [];
  return list.flatMap((probe: unknown) => {
    if (typeof probe !== "object" || probe === null) return [];
    const { name, ok, detail, ms } = probe as Record<string, unknown>;
    if (typeof name !== "string") return [];
    return [
      {
        name,
        ok: ok === true,
        detail: typeof detail === "string" ? detail : "",
        ms: typeof ms === "number" ? ms : null,
      },
    ];
  });
}

export function Probes({ report }: { report: unknown }) {
  const { t } = useTranslation("deployments");
  const probes = probesOf(report);
  if (probes.length === 0) return null;
  return (
    <section aria-label={t("probes")}>
      <h3 className="mb-1 text-sm font-medium">{t("probes")}</h3>
      <ul className="grid gap-x-6 text-sm sm:grid-cols-2">
        {probes.map((probe) => (
          <li key={probe.name} className="flex min-h-7 items-center gap-2">
            {probe.ok ? (
              <Check size={14} role="img" aria-label={t("passed")} className="shrink-0 text-accent" />
            ) : (
              <X size={14} role="img" aria-label={t("notPassed")} className="shrink-0 text-bad" />
            )}
            <span className="font-mono text-xs">
              <UntrustedText text={probe.name} longest={64} />
            </span>
            <UntrustedText text={probe.detail} longest={300} className="min-w-0 truncate text-xs text-soft" />
            <span className="ml-auto text-xs">
              <Num value={probe.ms} digits={0} unit={t("ms")} />
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}
