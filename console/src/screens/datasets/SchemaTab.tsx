import { useTranslation } from "react-i18next";
import { Badge, ErrorPanel, SkeletonLines, UntrustedText } from "@/ui";
import { type Dataset, type DatasetVersion, useSchema } from "./api";
import { membersOf } from "./schema";

type Props = { dataset: Dataset; version: DatasetVersion };

export function SchemaTab({ dataset, version }: Props) {
  const { t } = useTranslation("datasets");
  const { data, error, refetch } = useSchema(dataset.id, version.version);
  if (error && !data) return <ErrorPanel error={error} onRetry={() => void refetch()} />;
  if (!data) return <SkeletonLines lines={5} />;
  const members = membersOf(data.schema);
  return (
    <>
      <p className="mb-2 text-sm text-soft">
        {t(`source.${data.source}`, { defaultValue: data.source, count: data.sampled_rows })}
      </p>
      {members.length === 0 ? null : (
        <div className="scroll-thin relative overflow-x-auto rounded-lg border bg-card">
          <table className="w-full text-left text-sm">
            <thead className="border-b bg-sunken text-xs text-soft">
              <tr>
                <th className="px-3 py-1.5 font-medium">{t("member")}</th>
                <th className="px-3 py-1.5 font-medium">{t("type")}</th>
                <th className="px-3 py-1.5 font-medium">{t("description")}</th>
              </tr>
            </thead>
            <tbody className="divide-y divide-line/60">
              {members.map((member) => (
                <tr key={member.path} className="h-8">
                  <td className="px-3 font-mono text-xs">
                    <UntrustedText text={member.path} longest={200} />
                  </td>
                  <td className="px-3 font-mono text-xs">
                    <UntrustedText text={member.type} longest={100} />{" "}
                    {member.required ? <Badge>{t("required")}</Badge> : null}
                  </td>
                  <td className="px-3 text-soft">
                    <UntrustedText text={member.description} longest={500} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </>
  );
}
