import { useTranslation } from "react-i18next";
import { Nothing, UntrustedText } from "@/ui";
import type { Revision } from "./deployment";
import { changes } from "./diff";

// ConfigDiff shows what would change if `after` took the place of `before`.
export function ConfigDiff({ before, after }: { before: Revision | undefined; after: Revision }) {
  const { t } = useTranslation("deployments");
  const all = changes(before, after);
  if (all.length === 0) return <p className="text-sm text-soft">{t("noDifference")}</p>;
  return (
    <div className="scroll-thin overflow-x-auto rounded-md border">
      <table className="w-full text-left text-xs">
        <thead className="bg-sunken text-soft">
          <tr>
            <th className="px-2.5 py-1 font-medium">{t("setting")}</th>
            <th className="px-2.5 py-1 font-medium">{before ? t("hashNow", { number: before.number }) : t("now")}</th>
            <th className="px-2.5 py-1 font-medium">{t("hash", { number: after.number })}</th>
          </tr>
        </thead>
        <tbody className="divide-y divide-line/60">
          {all.map((change) => (
            <tr key={change.name} className="align-top font-mono">
              <th scope="row" className="px-2.5 py-1 font-normal whitespace-nowrap">
                <UntrustedText text={change.name} longest={200} />
              </th>
              <td className="px-2.5 py-1 break-all text-bad">
                {change.before === null ? (
                  <Nothing />
                ) : (
                  <del className="no-underline">
                    <UntrustedText text={change.before} longest={2000} />
                  </del>
                )}
              </td>
              <td className="px-2.5 py-1 break-all text-accent">
                {change.after === null ? (
                  <Nothing />
                ) : (
                  <ins className="no-underline">
                    <UntrustedText text={change.after} longest={2000} />
                  </ins>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
