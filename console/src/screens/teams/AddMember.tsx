import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { MemberForm } from "@/ui";
import { type Role, roles, type Team, useTeamsChanged } from "./api";

export function AddMember({ team }: { team: Team }) {
  const { t } = useTranslation("teams");
  const changed = useTeamsChanged();
  const add = async (username: string, role: Role) => {
    const path = { team_id: team.id, username };
    await call(api.PUT("/api/teams/{team_id}/members/{username}", { params: { path }, body: { role } }));
    await changed();
  };
  return (
    <MemberForm<Role>
      texts={{ username: t("username"), role: t("roleOfNew"), add: t("add") }}
      roles={roles.map((value) => ({ value, label: t(`roles.${value}`), hint: t(`roleHint.${value}`) }))}
      initial="member"
      add={add}
    />
  );
}
