import { useNavigate } from "@tanstack/react-router";
import { Copy, Ellipsis, GitCompareArrows, RotateCcw, Share2, Trash2 } from "lucide-react";
import { lazy, Suspense, useState } from "react";
import { useTranslation } from "react-i18next";
import { readJobCommand } from "@/lib/commands";
import { copyText } from "@/lib/copy";
import { actionIcons } from "@/screens/jobs/JobMenu";
import { type Action, actions, hasEnded, type Job, possible } from "@/screens/jobs/job";
import { Button, DropdownMenu, IconButton, MenuItem, MenuSeparator } from "@/ui";

const ActionDialog = lazy(() => import("./ActionDialog").then((m) => ({ default: m.ActionDialog })));
const CloneDialog = lazy(() => import("./CloneDialog").then((m) => ({ default: m.CloneDialog })));
const DeleteDialog = lazy(() => import("./DeleteDialog").then((m) => ({ default: m.DeleteDialog })));
const RetryDialog = lazy(() => import("./RetryDialog").then((m) => ({ default: m.RetryDialog })));
const ShareDialog = lazy(() => import("./ShareDialog").then((m) => ({ default: m.ShareDialog })));

type Open = { action: Action } | "clone" | "delete" | "retry" | "share" | null;
type Props = { job: Job; shared: boolean; onChanged: (job: Job) => void };

// JobActions are what can be done with a job in its state.
export function JobActions({ job, shared, onChanged }: Props) {
  const { t } = useTranslation("job");
  const navigate = useNavigate();
  const [open, setOpen] = useState<Open>(null);
  const close = () => setOpen(null);
  const created = (next: Job) => void navigate({ to: "/jobs/$id/{-$tab}", params: { id: next.id, tab: undefined } });
  return (
    <>
      {actions
        .filter((action) => possible(action, job))
        .map((action) => {
          const Icon = actionIcons[action];
          return (
            <Button
              key={action}
              variant={action === "resume" ? "primary" : "secondary"}
              icon={<Icon size={13} aria-hidden />}
              onClick={() => setOpen({ action })}
            >
              {t(`action.${action}`, { ns: "jobs" })}
            </Button>
          );
        })}
      {hasEnded(job) ? (
        <Button icon={<RotateCcw size={13} aria-hidden />} onClick={() => setOpen("retry")}>
          {t("retry.action")}
        </Button>
      ) : null}
      <Button icon={<Copy size={13} aria-hidden />} onClick={() => setOpen("clone")}>
        {t("clone.action")}
      </Button>
      {shared ? (
        <Button icon={<Share2 size={13} aria-hidden />} onClick={() => setOpen("share")} className="max-sm:hidden">
          {t("share.action")}
        </Button>
      ) : null}
      <DropdownMenu trigger={<IconButton label={t("more")} icon={<Ellipsis size={16} aria-hidden />} />}>
        {shared ? (
          <MenuItem icon={<Share2 size={13} aria-hidden />} onSelect={() => setOpen("share")}>
            {t("share.action")}
          </MenuItem>
        ) : null}
        <MenuItem
          icon={<GitCompareArrows size={13} aria-hidden />}
          onSelect={() => void navigate({ to: "/compare", search: { runs: job.run_id } })}
        >
          {t("compare")}
        </MenuItem>
        <MenuSeparator />
        <MenuItem icon={<Copy size={13} aria-hidden />} onSelect={() => void copyText(readJobCommand(job.id))}>
          {t("copyCommand", { ns: "jobs" })}
        </MenuItem>
        <MenuItem icon={<Copy size={13} aria-hidden />} onSelect={() => void copyText(job.run_id)}>
          {t("copyRunId")}
        </MenuItem>
        {hasEnded(job) ? (
          <MenuItem danger icon={<Trash2 size={13} aria-hidden />} onSelect={() => setOpen("delete")}>
            {t("deleteIt.action")}
          </MenuItem>
        ) : null}
      </DropdownMenu>
      <Suspense fallback={null}>
        {typeof open === "object" && open ? (
          <ActionDialog job={job} action={open.action} onClose={close} onChanged={onChanged} />
        ) : null}
        {open === "delete" ? <DeleteDialog job={job} onClose={close} /> : null}
        {open === "clone" ? <CloneDialog job={job} onClose={close} onCreated={created} /> : null}
        {open === "retry" ? <RetryDialog job={job} onClose={close} onCreated={created} /> : null}
        {open === "share" ? <ShareDialog kind="job" targets={[job.run_id]} onClose={close} /> : null}
      </Suspense>
    </>
  );
}
