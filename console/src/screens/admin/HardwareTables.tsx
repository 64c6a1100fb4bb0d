import { type ReactNode, useId } from "react";
import { useTranslation } from "react-i18next";
import type { Schemas } from "@/api/client";
import { Badge, EmptyState, Num, UntrustedText } from "@/ui";

export function HardwareTables({ config }: { config: Schemas["HardwareConfig"] }) {
  const { t } = useTranslation("admin");
  if (config.series.length === 0 && config.profiles.length === 0) {
    return <EmptyState title={t("noHardware")} why={t("noHardwareWhy")} docs="/docs" />;
  }
  return (
    <>
      <Block
        title={t("profiles")}
        head={[
          t("key"),
          t("series"),
          t("gpusPerNode"),
          t("maxNodes"),
          t("cpus"),
          t("memoryGb"),
          t("pools"),
          t("teams"),
        ]}
      >
        {config.profiles.map((p) => (
          <tr key={p.key}>
            <td className="px-3 py-1.5 font-mono">
              {p.key} {p.default ? <Badge tone="info">{t("default")}</Badge> : null}
            </td>
            <td className="px-3 py-1.5 font-mono">{p.series}</td>
            <Cell value={p.gpus_per_node} />
            <Cell value={p.max_nodes} />
            <Cell value={p.cpu} />
            <Cell value={p.memory_gb} />
            <td className="px-3 py-1.5">{p.pools.length > 0 ? p.pools.join(", ") : t("everyPool")}</td>
            <td className="px-3 py-1.5">{p.teams.length > 0 ? p.teams.join(", ") : t("everyTeam")}</td>
          </tr>
        ))}
      </Block>
      <Block
        title={t("accelerators")}
        head={[t("key"), t("model"), t("vram"), t("interconnect"), t("rate"), t("aliases")]}
      >
        {config.series.map((s) => (
          <tr key={s.key}>
            <td className="px-3 py-1.5 font-mono">{s.key}</td>
            <td className="px-3 py-1.5">
              <UntrustedText text={s.vendor} longest={64} /> <UntrustedText text={s.model} longest={128} />
            </td>
            <Cell value={s.vram_gb} />
            <td className="px-3 py-1.5">{s.interconnect}</td>
            <Cell value={s.rate_per_gpu_hour} />
            <td className="px-3 py-1.5">
              <UntrustedText text={s.aliases.join(", ")} longest={200} className="text-soft" />
            </td>
          </tr>
        ))}
      </Block>
    </>
  );
}

function Cell({ value }: { value: number }) {
  return (
    <td className="px-3 py-1.5 text-right">
      <Num value={value} />
    </td>
  );
}

function Block({ title, head, children }: { title: string; head: string[]; children: ReactNode }) {
  const id = useId();
  return (
    <section aria-labelledby={id} className="grid gap-2">
      <h2 id={id} className="text-sm font-semibold">
        {title}
      </h2>
      <div
        className="scroll-thin overflow-x-auto rounded-lg border bg-card"
        role="region"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
        tabIndex={0}
        aria-labelledby={id}
      >
        <table className="w-full text-left text-xs">
          <thead className="border-b bg-sunken text-soft">
            <tr>
              {head.map((name) => (
                <th key={name} className="px-3 py-1.5 font-medium whitespace-nowrap">
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody className="divide-y">{children}</tbody>
        </table>
      </div>
    </section>
  );
}
