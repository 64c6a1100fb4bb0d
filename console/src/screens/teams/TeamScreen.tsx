import { useNavigate } from "@tanstack/react-router";
import { Ellipsis } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { session } from "@/auth/browser";
import { visible } from "@/lib/untrusted";
import {
  ConfirmDialog,
  DropdownMenu,
  ErrorPanel,
  IconButton,
  MenuItem,
  Nothing,
  Num,
  PageBody,
  PageHeader,
  SkeletonLines,
  Time,
} from "@/ui";
import { Fact, FactList, IdText } from "@/ui/FactList";
import { mayManage, type Team, useTeam, useTeamQuota, useTeamsChanged } from "./api";
import { teamRoute } from "./area";
import { Members } from "./Members";
import { QuotaDialog } from "./QuotaDialog";
import { TeamDialog } from "./TeamDialog";

export function TeamScreen() {
  const { id } = teamRoute.useParams();
  const { data: team, error, refetch } = useTeam(id);
  if (team) return <Loaded team={team} />;
  if (error) return <ErrorPanel error={error} onRetry={() => void refetch()} />;
  return <SkeletonLines lines={6} className="max-w-2xl p-6" />;
}

function Loaded({ team }: { team: Team }) {
  const { t } = useTranslation("teams");
  const admin = session.user?.role === "admin";
  const manage = mayManage(team, session.user);
  const quota = useTeamQuota(team.key);
  return (
    <>
      <PageHeader name={visible(team.name, 128).text} actions={manage ? <Actions team={team} /> : null} />
      <PageBody>
        <FactList>
          <Fact label={t("key")}>
            <IdText id={team.key} />
          </Fact>
          <Fact label={t("id")}>
            <IdText id={team.id} />
          </Fact>
          <Fact label={t("members")}>
            <Num value={team.member_count} />
          </Fact>
          <Fact label={t("created")}>
            <Time at={team.created_at} />
          </Fact>
          {admin ? (
            <Fact label={t("gpusHeld")} wide>
              {quota.data ? (
                t("heldOf", { held: quota.data.gpu_held, limit: quota.data.gpu_limit, queued: quota.data.gpu_queued })
              ) : (
                <Nothing />
              )}
            </Fact>
          ) : null}
        </FactList>
        <Members team={team} manage={manage} />
      </PageBody>
    </>
  );
}

function Actions({ team }: { team: Team }) {
  const { t } = useTranslation("teams");
  const navigate = useNavigate();
  const changed = useTeamsChanged();
  const quota = useTeamQuota(team.key);
  const [open, setOpen] = useState<"rename" | "quota" | "remove" | null>(null);
  const admin = session.user?.role === "admin";
  const close = () => setOpen(null);
  return (
    <>
      <DropdownMenu trigger={<IconButton label={t("menu")} icon={<Ellipsis size={15} aria-hidden />} tip={false} />}>
        <MenuItem onSelect={() => setOpen("rename")}>{t("rename")}</MenuItem>
        {admin ? <MenuItem onSelect={() => setOpen("quota")}>{t("setQuota")}</MenuItem> : null}
        {admin ? (
          <MenuItem danger onSelect={() => setOpen("remove")}>
            {t("remove")}
          </MenuItem>
        ) : null}
      </DropdownMenu>
      {open === "rename" ? <TeamDialog team={team} onClose={close} /> : null}
      {open === "quota" ? <QuotaDialog team={team} limit={quota.data?.gpu_limit} onClose={close} /> : null}
      <ConfirmDialog
        open={open === "remove"}
        onOpenChange={close}
        title={t("removeTitle", { name: visible(team.name, 64).text })}
        description={t("removeWhy")}
        action={t("remove")}
        danger
        onConfirm={async () => {
          await call(api.DELETE("/api/teams/{team_id}", { params: { path: { team_id: team.id } } }));
          await navigate({ to: "/teams" });
          await changed();
        }}
      />
    </>
  );
}
