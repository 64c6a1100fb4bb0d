import { useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Archive, ArchiveRestore, Ellipsis, Pencil, Star } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { errorMessage } from "@/api/message";
import { useProfile } from "@/auth/profile";
import {
  Badge,
  Button,
  buttonClass,
  ConfirmDialog,
  DropdownMenu,
  ErrorPanel,
  IconButton,
  MenuItem,
  PageBody,
  PageHeader,
  SkeletonLines,
  toast,
} from "@/ui";
import { About } from "./About";
import { projectRoute } from "./area";
import { Members } from "./Members";
import { ProjectDialog } from "./ProjectDialog";
import { mayManage, type Project, useMembers, useProject, useProjectsChanged } from "./project";

export function ProjectScreen() {
  const { key } = projectRoute.useParams();
  const { data: project, error, refetch } = useProject(key);
  if (project) return <Loaded project={project} />;
  if (error) return <ErrorPanel error={error} onRetry={() => void refetch()} />;
  return <SkeletonLines lines={6} className="max-w-2xl p-6" />;
}

function Loaded({ project }: { project: Project }) {
  const { t } = useTranslation("projects");
  const [open, setOpen] = useState<"edit" | "archive" | null>(null);
  const members = useMembers(project.id);
  const changed = useProjectsChanged();
  const manage = mayManage(members.data);
  const update = async (body: {
    name?: string;
    description?: string;
    visibility?: "team" | "all";
    archived?: boolean;
  }) => {
    await call(api.PATCH("/api/projects/{project_id}", { params: { path: { project_id: project.id } }, body }));
    await changed();
  };
  const archived = project.archived_at !== null;
  return (
    <>
      <PageHeader
        name={project.name}
        lead={
          <>
            <Badge>{t(`visible.${project.visibility}`)}</Badge>
            {archived ? <Badge tone="warn">{t("archived")}</Badge> : null}
          </>
        }
        actions={
          <>
            <Link to="/jobs" search={{ project: project.key }} className={buttonClass()}>
              {t("jobs")}
            </Link>
            {manage && !archived ? (
              <Button icon={<Pencil size={13} aria-hidden />} onClick={() => setOpen("edit")}>
                {t("edit")}
              </Button>
            ) : null}
            <ProjectMenu project={project} manage={manage} onArchive={() => setOpen("archive")} />
          </>
        }
      />
      <PageBody>
        <About project={project} />
        <Members project={project} members={members} manage={manage && !archived} />
      </PageBody>
      {open === "edit" ? (
        <ProjectDialog
          title={t("editTitle", { name: project.name })}
          action={t("save")}
          start={{
            key: project.key,
            name: project.name,
            description: project.description ?? "",
            visibility: project.visibility,
          }}
          withKey={false}
          onClose={() => setOpen(null)}
          onSave={({ name, description, visibility }) =>
            update({ name: name.trim(), description: description.trim(), visibility })
          }
        />
      ) : null}
      <ConfirmDialog
        open={open === "archive"}
        onOpenChange={() => setOpen(null)}
        title={archived ? t("unarchiveTitle", { name: project.name }) : t("archiveTitle", { name: project.name })}
        description={archived ? t("unarchiveWhy") : t("archiveWhy")}
        action={archived ? t("unarchive") : t("archive")}
        onConfirm={() => update({ archived: !archived })}
      />
    </>
  );
}

function ProjectMenu({ project, manage, onArchive }: { project: Project; manage: boolean; onArchive: () => void }) {
  const { t } = useTranslation("projects");
  const queries = useQueryClient();
  const profile = useProfile();
  const makeDefault = async () => {
    try {
      const fresh = await call(api.PATCH("/api/profile", { body: { default_project: project.key } }));
      queries.setQueryData(["profile"], fresh);
      toast.success(t("madeDefault", { name: project.name }));
    } catch (error) {
      toast.error(errorMessage(t, error));
    }
  };
  const archived = project.archived_at !== null;
  return (
    <DropdownMenu
      trigger={
        <IconButton
          label={t("menu")}
          tip={false}
          icon={<Ellipsis size={16} aria-hidden />}
          className="size-8 border border-line bg-card"
        />
      }
    >
      <MenuItem
        icon={<Star size={14} aria-hidden />}
        disabled={profile.data?.default_project === project.key}
        onSelect={() => void makeDefault()}
      >
        {t("makeDefault")}
      </MenuItem>
      {manage && project.key !== "default" ? (
        <MenuItem
          icon={archived ? <ArchiveRestore size={14} aria-hidden /> : <Archive size={14} aria-hidden />}
          onSelect={onArchive}
        >
          {archived ? t("unarchive") : t("archive")}
        </MenuItem>
      ) : null}
    </DropdownMenu>
  );
}
