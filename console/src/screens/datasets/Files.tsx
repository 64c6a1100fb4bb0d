import { Download } from "lucide-react";
import { useTranslation } from "react-i18next";
import { errorMessage } from "@/api/message";
import { Bytes, ErrorPanel, IconButton, LoadMore, SkeletonLines, toast, UntrustedText } from "@/ui";
import { CopyId } from "@/ui/CopyId";
import { type Dataset, type DatasetVersion, download, useFiles } from "./api";

type Props = { dataset: Dataset; version: DatasetVersion };

export function Files({ dataset, version }: Props) {
  const { t } = useTranslation("datasets");
  const list = useFiles(dataset.id, version.version, !dataset.protected);
  const open = async (path: string) => {
    try {
      const { url } = await download(dataset.id, version.version, path);
      location.assign(url);
    } catch (error) {
      toast.error(errorMessage(t, error));
    }
  };
  if (list.error && list.rows.length === 0) return <ErrorPanel error={list.error} onRetry={list.refetch} />;
  if (list.pending) return <SkeletonLines lines={4} />;
  return (
    <div className="scroll-thin relative overflow-x-auto rounded-lg border bg-card">
      <table className="w-full text-left text-sm">
        <thead className="border-b bg-sunken text-xs text-soft">
          <tr>
            <th className="px-3 py-1.5 font-medium">{t("file")}</th>
            <th className="px-3 py-1.5 text-right font-medium">{t("size")}</th>
            <th className="px-3 py-1.5 font-medium">{t("digest")}</th>
            <th className="w-10">
              <span className="sr-only">{t("download")}</span>
            </th>
          </tr>
        </thead>
        <tbody className="divide-y divide-line/60">
          {list.rows.map((file) => (
            <tr key={file.path} className="h-8">
              <td className="px-3 font-mono text-xs">
                <UntrustedText text={file.path} longest={300} />
              </td>
              <td className="px-3 text-right">
                <Bytes value={file.size_bytes} />
              </td>
              <td className="px-3">
                <CopyId id={file.sha256} short={20} />
              </td>
              <td className="px-2">
                <IconButton
                  label={t("downloadFile", { path: file.path })}
                  tip={false}
                  className="size-6"
                  icon={<Download size={13} aria-hidden />}
                  onClick={() => void open(file.path)}
                />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <LoadMore more={list.more} busy={list.loadingMore} onMore={list.loadMore} />
    </div>
  );
}
