import { Copy, CopyPlus, Ellipsis, Pause, Play, Square } from "lucide-react";
import { useTranslation } from "react-i18next";
import { readJobCommand } from "@/lib/commands";
import { copyText } from "@/lib/copy";
import { plain } from "@/lib/untrusted";
import { DropdownMenu, IconButton, MenuItem, MenuSeparator } from "@/ui";
import { type Action, actions, type Job, possible } from "./job";

export const actionIcons = { pause: Pause, resume: Play, stop: Square };

type Props = { job: Job; onAction: (action: Action) => void; onClone: () => void };

export function JobMenu({ job, onAction, onClone }: Props) {
  const { t } = useTranslation("jobs");
  const allowed = actions.filter((action) => possible(action, job));
  return (
    <DropdownMenu
      trigger={
        <IconButton
          label={t("menu", { name: plain(job.name) })}
          tip={false}
          icon={<Ellipsis size={15} aria-hidden />}
          className="size-6"
        />
      }
    >
      {allowed.map((action) => {
        const Icon = actionIcons[action];
        return (
          <MenuItem
            key={action}
            icon={<Icon size={13} aria-hidden />}
            danger={action === "stop"}
            onSelect={() => onAction(action)}
          >
            {t(`action.${action}`)}
          </MenuItem>
        );
      })}
      <MenuItem icon={<CopyPlus size={13} aria-hidden />} onSelect={onClone}>
        {t("clone")}
      </MenuItem>
      <MenuSeparator />
      <MenuItem icon={<Copy size={13} aria-hidden />} onSelect={() => void copyText(job.id)}>
        {t("copyId")}
      </MenuItem>
      <MenuItem icon={<Copy size={13} aria-hidden />} onSelect={() => void copyText(readJobCommand(job.id))}>
        {t("copyCommand")}
      </MenuItem>
    </DropdownMenu>
  );
}
