import type { UseQueryResult } from "@tanstack/react-query";
import { UserMinus } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { errorMessage } from "@/api/message";
import { ConfirmDialog, ErrorNote, IconButton, Select, SkeletonLines, toast, UntrustedText } from "@/ui";
import { AddMember } from "./AddMember";
import { type Member, type Project, type Role, roles, useProjectsChanged } from "./project";

type Props = { project: Project; members: UseQueryResult<Member[]>; manage: boolean };

// Members lists the users who were added to the project by name. A team's members are editors without being listed.
export function Members({ project, members, manage }: Props) {
  const { t } = useTranslation("projects");
  const changed = useProjectsChanged();
  const [leaving, setLeaving] = useState<Member | null>(null);
  const path = (username: string) => ({ params: { path: { project_id: project.id, username } } });
  const change = async (member: Member, role: Role) => {
    try {
      await call(
        api.PUT("/api/projects/{project_id}/members/{username}", { ...path(member.username), body: { role } }),
      );
    } catch (error) {
      toast.error(errorMessage(t, error));
    }
    await changed();
  };
  return (
    <section aria-label={t("members")}>
      <h2 className="flex h-8 items-center text-sm font-semibold">{t("members")}</h2>
      <div className="rounded-lg border bg-card">
        {members.error && !members.data ? (
          <ErrorNote error={members.error} className="m-3" />
        ) : !members.data ? (
          <SkeletonLines lines={3} className="px-4 py-3" />
        ) : members.data.length === 0 ? (
          <p className="px-4 py-4 text-sm text-soft">{t("noMembers")}</p>
        ) : (
          <ul className="divide-y">
            {members.data.map((member) => (
              <li key={member.username} className="flex min-h-9 items-center gap-3 px-4 py-1 text-sm">
                <UntrustedText text={member.username} longest={128} className="min-w-0 flex-1 truncate font-medium" />
                {manage ? (
                  <>
                    <Select
                      size="sm"
                      label={t("roleOf", { name: member.username })}
                      value={member.role}
                      onChange={(role) => void change(member, role)}
                      options={roles.map((value) => ({ value, label: t(`role.${value}`) }))}
                      className="w-28"
                    />
                    <IconButton
                      label={t("remove", { name: member.username })}
                      icon={<UserMinus size={14} aria-hidden />}
                      onClick={() => setLeaving(member)}
                    />
                  </>
                ) : (
                  <span className="text-soft">{t(`role.${member.role}`)}</span>
                )}
              </li>
            ))}
          </ul>
        )}
        {manage ? <AddMember project={project} /> : null}
      </div>
      <ConfirmDialog
        open={leaving !== null}
        onOpenChange={() => setLeaving(null)}
        title={t("removeTitle", { name: leaving?.username ?? "" })}
        description={t("removeWhy")}
        action={t("removeAction")}
        danger
        onConfirm={async () => {
          await call(api.DELETE("/api/projects/{project_id}/members/{username}", path(leaving?.username ?? "")));
          await changed();
        }}
      />
    </section>
  );
}
