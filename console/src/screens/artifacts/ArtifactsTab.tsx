import { useCallback, useState } from "react";
import { useTranslation } from "react-i18next";
import { formatBytes } from "@/lib/format";
import { useFormats } from "@/lib/prefs";
import { EmptyState, ErrorPanel, LoadMore, Table } from "@/ui";
import { ArtifactMenu } from "./ArtifactMenu";
import { type Artifact, useArtifacts } from "./api";
import { freedBy } from "./artifact";
import { useArtifactColumns } from "./columns";
import { DownloadAll } from "./DownloadAll";
import { RegisterDialog } from "./RegisterDialog";

const idOf = (artifact: Artifact) => artifact.id;

// ArtifactsTab lists what a run stored: checkpoints, exports, merged models and reports.
export function ArtifactsTab({ runId, live }: { jobId?: string; runId: string; live: boolean }) {
  const { t } = useTranslation("artifacts");
  const list = useArtifacts(runId, live);
  const columns = useArtifactColumns();
  const { tag } = useFormats();
  const freed = freedBy(list.rows);
  const [registering, setRegistering] = useState<Artifact | null>(null);
  const menu = useCallback(
    (artifact: Artifact) => <ArtifactMenu artifact={artifact} onRegister={setRegistering} />,
    [],
  );

  if (list.error && list.rows.length === 0) return <ErrorPanel error={list.error} onRetry={list.refetch} />;
  if (!list.pending && list.rows.length === 0)
    return (
      <EmptyState
        title={t("empty")}
        why={t("emptyWhy")}
        command={'run.artifact("out/model", kind="hf_export", format="safetensors", step=step)'}
        docs="/docs/reference/api"
      />
    );
  return (
    <div className="flex min-h-64 flex-1 flex-col pt-3">
      <div className="flex items-center justify-end gap-4 px-4 pb-2 md:px-6">
        {freed.count > 0 ? (
          <p className="flex-1 text-sm text-soft">
            {t(list.more ? "freedSoFar" : "freed", { count: freed.count, size: formatBytes(freed.bytes, tag) })}
          </p>
        ) : null}
        <DownloadAll runId={runId} />
      </div>
      <Table
        label={t("title")}
        rows={list.rows}
        columns={columns}
        rowId={idOf}
        pending={list.pending}
        menu={menu}
        footer={<LoadMore more={list.more} busy={list.loadingMore} onMore={list.loadMore} />}
      />
      {registering ? <RegisterDialog artifact={registering} onClose={() => setRegistering(null)} /> : null}
    </div>
  );
}
