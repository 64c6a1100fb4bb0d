import { useTranslation } from "react-i18next";
import type { Schemas } from "@/api/client";
import { UntrustedText } from "@/ui";

const groups = [
  { effect: "blocks", title: "deleteIt.blocked" },
  { effect: "deleted", title: "deleteIt.gone" },
  { effect: "kept", title: "deleteIt.stays" },
] as const;

const kinds = ["deployment", "job", "model_version", "run", "share"] as const;

// ReferenceList shows what refers to a run, by what the deletion of the run does to it.
export function ReferenceList({ found, ended }: { found: Schemas["References"]; ended: boolean }) {
  const { t } = useTranslation("runs");
  const kindOf = (kind: string) => {
    const known = kinds.find((k) => k === kind);
    return known ? t(`deleteIt.kind.${known}`) : kind;
  };
  return (
    <div className="grid gap-3 text-sm">
      {ended ? null : <p>{t("deleteIt.live")}</p>}
      {groups.map(({ effect, title }) => {
        const those = found.references.filter((r) => r.effect === effect);
        return those.length === 0 ? null : (
          <section key={effect}>
            <p>{t(title)}</p>
            <ul className="mt-1 max-h-40 list-disc overflow-y-auto pl-5">
              {those.map((r) => (
                <li key={`${r.kind} ${r.id} ${r.name}`}>
                  {kindOf(r.kind)} <UntrustedText text={r.name || r.id} />
                </li>
              ))}
            </ul>
          </section>
        );
      })}
      {found.hidden > 0 ? <p>{t("deleteIt.hidden", { count: found.hidden })}</p> : null}
      {found.references.length + found.hidden === 0 ? <p>{t("deleteIt.nothing")}</p> : null}
    </div>
  );
}
