import { useNavigate } from "@tanstack/react-router";
import { Archive, ArchiveRestore, Ellipsis, GitCompareArrows, Pencil, Share2, Trash2 } from "lucide-react";
import { lazy, Suspense, useState } from "react";
import { useTranslation } from "react-i18next";
import { Button, ConfirmDialog, DropdownMenu, IconButton, MenuItem } from "@/ui";
import { EditDialog } from "./EditDialog";
import { useUpdate } from "./update";
import type { Run } from "./use-runs";

const ShareDialog = lazy(() => import("@/screens/job/actions/ShareDialog").then((m) => ({ default: m.ShareDialog })));
const DeleteDialog = lazy(() => import("./DeleteDialog").then((m) => ({ default: m.DeleteDialog })));

export function RunActions({ run }: { run: Run }) {
  const { t } = useTranslation("runs");
  const navigate = useNavigate();
  const update = useUpdate(run);
  const [open, setOpen] = useState<"edit" | "archive" | "share" | "delete" | null>(null);
  const close = () => setOpen(null);
  return (
    <>
      <Button icon={<Pencil size={13} aria-hidden />} onClick={() => setOpen("edit")}>
        {t("edit")}
      </Button>
      <Button
        icon={<GitCompareArrows size={13} aria-hidden />}
        onClick={() => void navigate({ to: "/compare", search: { runs: run.id } })}
      >
        {t("compare")}
      </Button>
      <DropdownMenu trigger={<IconButton label={t("more")} icon={<Ellipsis size={16} aria-hidden />} />}>
        {run.protected ? null : (
          <MenuItem icon={<Share2 size={13} aria-hidden />} onSelect={() => setOpen("share")}>
            {t("share.action", { ns: "job" })}
          </MenuItem>
        )}
        <MenuItem
          icon={run.archived ? <ArchiveRestore size={13} aria-hidden /> : <Archive size={13} aria-hidden />}
          onSelect={() => setOpen("archive")}
        >
          {t(run.archived ? "unarchive.action" : "archiveIt.action")}
        </MenuItem>
        <MenuItem danger icon={<Trash2 size={13} aria-hidden />} onSelect={() => setOpen("delete")}>
          {t("deleteIt.action")}
        </MenuItem>
      </DropdownMenu>
      {open === "edit" ? <EditDialog run={run} onClose={close} /> : null}
      <ConfirmDialog
        open={open === "archive"}
        onOpenChange={(on) => !on && close()}
        title={t(run.archived ? "unarchive.title" : "archiveIt.title", { name: run.name })}
        description={t(run.archived ? "unarchive.what" : "archiveIt.what")}
        action={t(run.archived ? "unarchive.action" : "archiveIt.action")}
        onConfirm={() => update({ archived: !run.archived })}
      />
      <Suspense fallback={null}>
        {open === "delete" ? <DeleteDialog run={run} onClose={close} /> : null}
        {open === "share" ? <ShareDialog kind="job" targets={[run.id]} onClose={close} /> : null}
      </Suspense>
    </>
  );
}
