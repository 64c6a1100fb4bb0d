import { Download } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { errorMessage } from "@/api/message";
import { save } from "@/api/save";
import { DropdownMenu, IconButton, MenuItem, Spinner, toast } from "@/ui";
import { filtersOf, type LogsView } from "./view";

// DownloadLog stores the log, or what the filters leave of it, as a file. It has the lines of all levels.
export function DownloadLog({ runId, view }: { runId: string; view: LogsView }) {
  const { t } = useTranslation("logs");
  const [busy, setBusy] = useState(false);
  const start = async (labels: boolean) => {
    setBusy(true);
    const { level: _, ...filters } = filtersOf(view) ?? {};
    const query = { ...filters, labels: labels || undefined };
    try {
      await save(`/api/runs/${encodeURIComponent(runId)}/logs/download`, query, `${runId}.log`);
    } catch (error) {
      toast.error(errorMessage(t, error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <DropdownMenu
      trigger={
        <IconButton
          label={t("download")}
          icon={busy ? <Spinner /> : <Download size={14} aria-hidden />}
          disabled={busy}
        />
      }
    >
      <MenuItem onSelect={() => void start(false)}>{t("downloadPlain")}</MenuItem>
      <MenuItem onSelect={() => void start(true)}>{t("downloadLabels")}</MenuItem>
    </DropdownMenu>
  );
}
