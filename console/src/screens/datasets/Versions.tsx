import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { cx } from "@/lib/cx";
import { Bytes, LoadMore, Num, StateBadge, Time, UntrustedText } from "@/ui";
import { CopyId } from "@/ui/CopyId";
import { useGrowing } from "@/ui/table/growing";
import type { Dataset, DatasetVersion } from "./api";

type Props = { dataset: Dataset; versions: DatasetVersion[]; current: string };

export function Versions({ dataset, versions, current }: Props) {
  const { t } = useTranslation("datasets");
  const { shown, more, loadMore } = useGrowing(versions);
  return (
    <div className="scroll-thin relative overflow-x-auto rounded-lg border bg-card">
      <table className="w-full text-left text-sm">
        <thead className="border-b bg-sunken text-xs text-soft">
          <tr>
            <th className="px-3 py-1.5 font-medium">{t("version")}</th>
            <th className="px-3 py-1.5 font-medium">{t("state")}</th>
            <th className="px-3 py-1.5 text-right font-medium">{t("files")}</th>
            <th className="px-3 py-1.5 text-right font-medium">{t("size")}</th>
            <th className="px-3 py-1.5 font-medium">{t("digest")}</th>
            <th className="px-3 py-1.5 text-right font-medium">{t("created")}</th>
          </tr>
        </thead>
        <tbody className="divide-y divide-line/60">
          {shown.map((version) => (
            <tr key={version.id} className={cx("h-8 whitespace-nowrap", version.version === current && "bg-tint")}>
              <td className="px-3">
                <Link
                  to="/datasets/$id/$version"
                  params={{ id: dataset.id, version: version.version }}
                  className="font-medium hover:underline"
                >
                  <UntrustedText text={version.version} longest={64} />
                </Link>
              </td>
              <td className="px-3">
                <StateBadge state={version.state} />
              </td>
              <td className="px-3 text-right">
                <Num value={version.files} />
              </td>
              <td className="px-3 text-right">
                <Bytes value={version.bytes} />
              </td>
              <td className="px-3">
                <CopyId id={version.digest} short={20} />
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
