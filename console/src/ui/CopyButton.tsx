import { Check, Copy } from "lucide-react";
import { useEffect, useState } from "react";
import { useTranslation } from "react-i18next";
import { copyText } from "@/lib/copy";
import { cx } from "@/lib/cx";
import { IconButton } from "./IconButton";

// CopyButton copies a text. It shows a check mark for a moment instead of a message.
export function CopyButton({ text, label, className }: { text: string; label?: string; className?: string }) {
  const { t } = useTranslation();
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return;
    const timer = setTimeout(() => setCopied(false), 1500);
    return () => clearTimeout(timer);
  }, [copied]);
  return (
    <IconButton
      label={copied ? t("copied") : (label ?? t("copy"))}
      icon={copied ? <Check size={14} aria-hidden className="text-accent" /> : <Copy size={14} aria-hidden />}
      className={cx("size-6", className)}
      onClick={() => void copyText(text).then(setCopied)}
    />
  );
}
