import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import type { Model, ModelVersion } from "@/api/models";
import { cx } from "@/lib/cx";
import { Badge, Bytes, LoadMore, Time, UntrustedText } from "@/ui";
import { useGrowing } from "@/ui/table/growing";
import { Stage } from "./Stage";

type Props = { model: Model; versions: ModelVersion[]; current: number };

export function Versions({ model, versions, current }: Props) {
  const { t } = useTranslation("models");
  const { shown, more, loadMore } = useGrowing(versions);
  const aliases = Object.entries(model.aliases).filter(([alias]) => alias !== "production");
  return (
    <div className="scroll-thin relative overflow-x-auto rounded-lg border bg-card">
      <table className="w-full text-left text-sm">
        <thead className="border-b bg-sunken text-xs text-soft">
          <tr>
            <th className="px-3 py-1.5 font-medium">{t("version")}</th>
            <th className="px-3 py-1.5 font-medium">{t("stage")}</th>
            <th className="px-3 py-1.5 font-medium">{t("aliases")}</th>
            <th className="px-3 py-1.5 font-medium">{t("format")}</th>
            <th className="px-3 py-1.5 text-right font-medium">{t("size")}</th>
            <th className="px-3 py-1.5 font-medium">{t("promotedBy")}</th>
            <th className="px-3 py-1.5 text-right font-medium">{t("created")}</th>
          </tr>
        </thead>
        <tbody className="divide-y divide-line/60">
          {shown.map((version) => (
            <tr key={version.id} className={cx("h-8 whitespace-nowrap", version.version === current && "bg-tint")}>
              <td className="px-3">
                <Link
                  to="/models/$id/$version"
                  params={{ id: model.id, version: String(version.version) }}
                  className="font-medium tabular hover:underline"
                >
                  v{version.version}
                </Link>
              </td>
              <td className="px-3">
                <span className="flex items-center gap-1.5">
                  <Stage version={version} />
                </span>
              </td>
              <td className="px-3">
                <span className="flex gap-1">
                  {aliases
                    .filter(([, number]) => number === version.version)
                    .map(([alias]) => (
                      <Badge key={alias}>
                        <UntrustedText text={alias} longest={64} />
                      </Badge>
                    ))}
                </span>
              </td>
              <td className="px-3">{version.format}</td>
              <td className="px-3 text-right">
                <Bytes value={version.size_bytes} />
              </td>
              <td className="px-3">
                <UntrustedText text={version.promoted_by ?? ""} longest={128} />{" "}
                {version.promoted_at ? <Time at={version.promoted_at} /> : null}
              </td>
              <td className="px-3 text-right">
                <Time at={version.created_at} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <LoadMore more={more} busy={false} onMore={loadMore} />
    </div>
  );
}
