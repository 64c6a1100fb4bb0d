import { Link2, X } from "lucide-react";
import { useTranslation } from "react-i18next";
import { copyText } from "@/lib/copy";
import { formatNumber } from "@/lib/format";
import { useFormats } from "@/lib/prefs";
import { IconButton, toast } from "@/ui";

// LineChip is the selected line, with a button that copies the link to it.
export function LineChip({ seq, onClose }: { seq: number; onClose: () => void }) {
  const { t } = useTranslation("logs");
  const { tag } = useFormats();
  const copy = async () => {
    const address = new URL(location.href);
    address.hash = `L${seq}`;
    if (await copyText(address.href)) toast.success(t("linkCopied"));
  };
  return (
    <span className="inline-flex h-7 items-center rounded-md bg-warn-tint pl-2 text-xs text-warn tabular">
      {t("line", { number: formatNumber(seq, tag) })}
      <IconButton
        label={t("copyLink")}
        icon={<Link2 size={14} aria-hidden />}
        className="text-warn!"
        onClick={() => void copy()}
      />
      <IconButton label={t("unselect")} icon={<X size={13} aria-hidden />} className="text-warn!" onClick={onClose} />
    </span>
  );
}
