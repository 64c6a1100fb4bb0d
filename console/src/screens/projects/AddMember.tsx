import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { MemberForm } from "@/ui";
import { type Project, type Role, roles, useProjectsChanged } from "./project";

export function AddMember({ project }: { project: Project }) {
  const { t } = useTranslation("projects");
  const changed = useProjectsChanged();
  const add = async (username: string, role: Role) => {
    const path = { project_id: project.id, username };
    await call(api.PUT("/api/projects/{project_id}/members/{username}", { params: { path }, body: { role } }));
    await changed();
  };
  return (
    <MemberForm<Role>
      texts={{ username: t("username"), role: t("roleOfNew"), add: t("add") }}
      roles={roles.map((value) => ({ value, label: t(`role.${value}`), hint: t(`roleHint.${value}`) }))}
      initial="editor"
      add={add}
    />
  );
}
