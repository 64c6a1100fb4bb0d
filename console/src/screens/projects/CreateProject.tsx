import { useNavigate } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { ProjectDialog } from "./ProjectDialog";
import type { Values } from "./ProjectFields";
import { useProjectsChanged } from "./project";

export function CreateProject({ onClose }: { onClose: () => void }) {
  const { t } = useTranslation("projects");
  const navigate = useNavigate();
  const changed = useProjectsChanged();
  const save = async (values: Values) => {
    const body = { ...values, name: values.name.trim(), description: values.description.trim() || null };
    const project = await call(api.POST("/api/projects", { body }));
    await changed();
    await navigate({ to: "/projects/$key", params: { key: project.key } });
  };
  return (
    <ProjectDialog
      title={t("create")}
      action={t("createAction")}
      start={{ key: "", name: "", description: "", visibility: "team" }}
      withKey
      onClose={onClose}
      onSave={save}
    />
  );
}
