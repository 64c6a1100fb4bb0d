import { useMemo } from "react";
import { useTranslation } from "react-i18next";
import { Nothing, UntrustedText } from "@/ui";
import { changesOf } from "./audit";

// ChangeTable shows the fields that an action changed.
export function ChangeTable({ before, after }: { before: unknown; after: unknown }) {
  const { t } = useTranslation("admin");
  const changes = useMemo(() => changesOf(before, after), [before, after]);
  if (changes.length === 0) return <p className="text-sm text-soft">{t("noChanges")}</p>;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
    <div className="scroll-thin overflow-x-auto rounded-lg border" role="region" tabIndex={0} aria-label={t("changes")}>
      <table className="w-full text-left text-xs">
        <thead className="border-b bg-sunken text-soft">
          <tr>
            <th className="px-3 py-1.5 font-medium">{t("field")}</th>
            <th className="px-3 py-1.5 font-medium">{t("before")}</th>
            <th className="px-3 py-1.5 font-medium">{t("after")}</th>
          </tr>
        </thead>
        <tbody className="divide-y">
          {changes.map((change) => (
            <tr key={change.path} className="align-top">
              <td className="px-3 py-1.5 font-mono">
                <UntrustedText text={change.path} longest={200} />
              </td>
              <td className="px-3 py-1.5 font-mono break-all text-bad">
                {change.before === null ? <Nothing /> : <UntrustedText text={change.before} longest={1000} />}
              </td>
              <td className="px-3 py-1.5 font-mono break-all text-accent">
                {change.after === null ? <Nothing /> : <UntrustedText text={change.after} longest={1000} />}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
