import { useTranslation } from "react-i18next";
import type { ModelVersion } from "@/api/models";
import { Badge, Bytes, ErrorPanel, SkeletonLines, UntrustedText } from "@/ui";
import { CopyId } from "@/ui/CopyId";
import { useFiles } from "./api";

export function Files({ version }: { version: ModelVersion }) {
  const { t } = useTranslation("models");
  const { data, error, refetch } = useFiles(version.model_id, version.version);
  if (error && !data) return <ErrorPanel error={error} onRetry={() => void refetch()} />;
  if (!data) return <SkeletonLines lines={3} />;
  return (
    <div className="scroll-thin relative overflow-x-auto rounded-lg border bg-card">
      <table className="w-full text-left text-sm">
        <thead className="border-b bg-sunken text-xs text-soft">
          <tr>
            <th className="px-3 py-1.5 font-medium">{t("file")}</th>
            <th className="px-3 py-1.5 text-right font-medium">{t("size")}</th>
            <th className="px-3 py-1.5 font-medium">SHA-256</th>
          </tr>
        </thead>
        <tbody className="divide-y divide-line/60">
          {data.map((file) => (
            <tr key={file.path} className="h-8">
              <td className="px-3 font-mono text-xs">
                <UntrustedText text={file.path} longest={300} /> {file.packed ? <Badge>{t("packed")}</Badge> : null}
              </td>
              <td className="px-3 text-right">
                <Bytes value={file.size_bytes} />
              </td>
              <td className="px-3">
                <CopyId id={file.sha256} short={20} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
