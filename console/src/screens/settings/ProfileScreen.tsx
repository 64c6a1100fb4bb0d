import { useTranslation } from "react-i18next";
import { useProfile } from "@/auth/profile";
import { Badge, ErrorPanel, PageBody, PageHeader, SkeletonLines } from "@/ui";
import { Display } from "./Display";
import { Identity } from "./Identity";
import { Password } from "./Password";
import { Sessions } from "./Sessions";

export function ProfileScreen() {
  const { t } = useTranslation("settings");
  const { data: profile, error, refetch } = useProfile();
  return (
    <>
      <PageHeader name={t("title")} lead={profile ? <Badge>{t(`roles.${profile.role}`)}</Badge> : null} />
      {profile ? (
        <PageBody>
          <Identity profile={profile} />
          <Display profile={profile} />
          <Password />
          <Sessions />
        </PageBody>
      ) : error ? (
        <ErrorPanel error={error} onRetry={() => void refetch()} />
      ) : (
        <SkeletonLines lines={6} className="max-w-2xl px-6" />
      )}
    </>
  );
}
