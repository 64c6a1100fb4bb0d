import { useQuery } from "@tanstack/react-query";
import { Download } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { all, mostRows } from "@/api/all";
import { api, call } from "@/api/client";
import { pullCommand } from "@/lib/commands";
import { formatBytes } from "@/lib/format";
import { useFormats } from "@/lib/prefs";
import { Button, CodeBlock, Dialog, ErrorNote, SkeletonLines } from "@/ui";

// DownloadAll shows how to download all files of a run.
export function DownloadAll({ runId }: { runId: string }) {
  const { t } = useTranslation("artifacts");
  const [open, setOpen] = useState(false);
  return (
    <>
      <Button icon={<Download size={13} aria-hidden />} onClick={() => setOpen(true)}>
        {t("all.action")}
      </Button>
      {open ? (
        <Dialog open size="lg" onOpenChange={setOpen} title={t("all.title")}>
          <Files runId={runId} />
        </Dialog>
      ) : null}
    </>
  );
}

function Files({ runId }: { runId: string }) {
  const { t } = useTranslation("artifacts");
  const { tag } = useFormats();
  const { data, error } = useQuery({
    queryKey: ["run", runId, "files"],
    queryFn: ({ signal }) =>
      all((limit, offset) =>
        call(api.GET("/api/runs/{id}/download", { params: { path: { id: runId }, query: { limit, offset } }, signal })),
      ),
  });
  if (error) return <ErrorNote error={error} />;
  if (!data) return <SkeletonLines lines={3} />;
  const stored = data.filter((file) => file.url !== null);
  const removed = data.filter((file) => file.reason === "artifact_removed").length;
  const elsewhere = data.length - stored.length - removed;
  const size = stored.reduce((sum, file) => sum + file.size_bytes, 0);
  return (
    <div className="grid gap-3 text-sm">
      <p>
        {t(data.length < mostRows ? "all.files" : "all.firstFiles", {
          count: stored.length,
          size: formatBytes(size, tag),
        })}
        {elsewhere > 0 ? ` ${t("all.elsewhere", { count: elsewhere })}` : null}
        {removed > 0 ? ` ${t("all.removed", { count: removed })}` : null}
      </p>
      <CodeBlock code={pullCommand(runId)} label={t("command")} />
      <p className="text-soft">{t("all.rest")}</p>
    </div>
  );
}
