import { Download } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { errorMessage } from "@/api/message";
import { save } from "@/api/save";
import { DropdownMenu, IconButton, MenuItem, Spinner, toast } from "@/ui";

const formats = ["csv", "parquet"] as const;

// ExportMetrics stores all points of the run as a file.
export function ExportMetrics({ runId }: { runId: string }) {
  const { t } = useTranslation("job");
  const [busy, setBusy] = useState(false);
  const start = async (format: (typeof formats)[number]) => {
    setBusy(true);
    try {
      await save(`/api/runs/${encodeURIComponent(runId)}/metrics/export`, { format }, `${runId}.${format}`);
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
          label={t("metrics.export")}
          icon={busy ? <Spinner /> : <Download size={14} aria-hidden />}
          disabled={busy}
        />
      }
    >
      {formats.map((format) => (
        <MenuItem key={format} onSelect={() => void start(format)}>
          {t(`metrics.exportAs.${format}`)}
        </MenuItem>
      ))}
    </DropdownMenu>
  );
}
