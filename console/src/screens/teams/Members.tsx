import { UserMinus } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { errorMessage } from "@/api/message";
import { session } from "@/auth/browser";
import { ConfirmDialog, IconButton, Select, toast, UntrustedText } from "@/ui";
import { AddMember } from "./AddMember";
import { lastLead, type Member, type Role, roles, type Team, useTeamsChanged } from "./api";

export function Members({ team, manage }: { team: Team; manage: boolean }) {
  const { t } = useTranslation("teams");
  const changed = useTeamsChanged();
  const [leaving, setLeaving] = useState<Member | null>(null);
  const path = (username: string) => ({ params: { path: { team_id: team.id, username } } });
  const change = async (member: Member, role: Role) => {
    try {
      await call(api.PUT("/api/teams/{team_id}/members/{username}", { ...path(member.username), body: { role } }));
    } catch (error) {
      toast.error(errorMessage(t, error));
    }
    await changed();
  };
  // The only lead would lose the team by leaving it or by becoming a member; an admin can still do that.
  const kept = (member: Member) => session.user?.role !== "admin" && lastLead(team, member.username);
  return (
    <section aria-label={t("members")} className="max-w-3xl">
      <h2 className="flex h-8 items-center text-sm font-semibold">{t("members")}</h2>
      <div className="rounded-lg border bg-card">
        {team.members.length === 0 ? <p className="px-4 py-4 text-sm text-soft">{t("noMembers")}</p> : null}
        <ul className="divide-y">
          {team.members.map((member) => (
            <li key={member.username} className="flex min-h-9 items-center gap-3 px-4 py-1 text-sm">
              <UntrustedText text={member.username} longest={128} className="min-w-0 flex-1 truncate font-medium" />
              {kept(member) && manage ? <span className="text-xs text-soft">{t("lastLead")}</span> : null}
              {manage && !kept(member) ? (
                <>
                  <Select
                    size="sm"
                    label={t("roleOf", { name: member.username })}
                    value={member.role}
                    onChange={(role) => void change(member, role)}
                    options={roles.map((value) => ({ value, label: t(`roles.${value}`) }))}
                    className="w-28"
                  />
                  <IconButton
                    label={t("removeMember", { name: member.username })}
                    icon={<UserMinus size={14} aria-hidden />}
                    onClick={() => setLeaving(member)}
                  />
                </>
              ) : (
                <span className="text-soft">{t(`roles.${member.role}`)}</span>
              )}
            </li>
          ))}
        </ul>
        {manage ? <AddMember team={team} /> : null}
      </div>
      <ConfirmDialog
        open={leaving !== null}
        onOpenChange={() => setLeaving(null)}
        title={t("removeMemberTitle", { name: leaving?.username ?? "" })}
        description={t("removeMemberWhy")}
        action={t("removeMemberAction")}
        danger
        onConfirm={async () => {
          await call(api.DELETE("/api/teams/{team_id}/members/{username}", path(leaving?.username ?? "")));
          await changed();
        }}
      />
    </section>
  );
}
