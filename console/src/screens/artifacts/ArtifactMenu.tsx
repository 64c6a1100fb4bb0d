import { Box, Copy, Download, MoreHorizontal } from "lucide-react";
import { useTranslation } from "react-i18next";
import { toApiError } from "@/api/error";
import { errorMessage } from "@/api/message";
import { keep } from "@/api/save";
import { copyText } from "@/lib/copy";
import { DropdownMenu, IconButton, MenuItem, toast } from "@/ui";
import { type Artifact, downloads } from "./api";
import { canRegister, fileOf, isStored } from "./artifact";

type Props = { artifact: Artifact; onRegister: (artifact: Artifact) => void };

export function ArtifactMenu({ artifact, onRegister }: Props) {
  const { t } = useTranslation("artifacts");
  const download = async () => {
    try {
      for (const file of await downloads(artifact)) keep(file.url, file.path.slice(file.path.lastIndexOf("/") + 1));
    } catch (error) {
      toast.error(errorMessage(t, error), { description: toApiError(error).requestId ?? undefined });
    }
  };
  return (
    <DropdownMenu
      trigger={
        <IconButton
          label={t("menu", { name: fileOf(artifact) })}
          icon={<MoreHorizontal size={15} aria-hidden />}
          tip={false}
        />
      }
    >
      {isStored(artifact) ? (
        <MenuItem icon={<Download size={14} aria-hidden />} onSelect={() => void download()}>
          {t("download")}
        </MenuItem>
      ) : null}
      {canRegister(artifact) ? (
        <MenuItem icon={<Box size={14} aria-hidden />} onSelect={() => onRegister(artifact)}>
          {t("register")}
        </MenuItem>
      ) : null}
      <MenuItem icon={<Copy size={14} aria-hidden />} onSelect={() => void copyText(artifact.id)}>
        {t("copyId")}
      </MenuItem>
      <MenuItem icon={<Copy size={14} aria-hidden />} onSelect={() => void copyText(artifact.path)}>
        {t("copyPath")}
      </MenuItem>
    </DropdownMenu>
  );
}
