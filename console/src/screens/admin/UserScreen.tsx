import { useTranslation } from "react-i18next";
import { visible } from "@/lib/untrusted";
import {
  Badge,
  ErrorPanel,
  Nothing,
  Num,
  PageBody,
  PageHeader,
  SkeletonLines,
  StateBadge,
  Time,
  UntrustedText,
} from "@/ui";
import { Fact, FactList, IdText } from "@/ui/FactList";
import { PathLink } from "@/ui/PathLink";
import { type User, useOwned, useQuotas, useUser } from "./api";
import { userRoute } from "./area";
import { UserMenu } from "./UserMenu";

export function UserScreen() {
  const { id } = userRoute.useParams();
  const { t } = useTranslation("admin");
  const { data: user, error, refetch } = useUser(id);
  const quotas = useQuotas();
  if (!user) {
    if (error) return <ErrorPanel error={error} onRetry={() => void refetch()} />;
    return <SkeletonLines lines={6} className="max-w-2xl p-6" />;
  }
  const quota = quotas.data?.get(user.username);
  return (
    <>
      <PageHeader
        name={visible(user.username, 128).text}
        lead={<Badge tone={user.role === "admin" ? "info" : "neutral"}>{t(`roles.${user.role}`)}</Badge>}
        actions={<UserMenu user={user} quota={quota} />}
      />
      <PageBody>
        <FactList>
          <Fact label={t("state")}>
            <StateBadge state={user.disabled_at ? "disabled" : "active"} />
            {user.disabled_at ? <Time at={user.disabled_at} /> : null}
          </Fact>
          <Fact label={t("signIn")}>{t(`logins.${user.login}`, { defaultValue: user.login })}</Fact>
          <Fact label={t("name")}>{user.display_name ? <UntrustedText text={user.display_name} /> : <Nothing />}</Fact>
          <Fact label={t("email")}>{user.email ? <UntrustedText text={user.email} /> : <Nothing />}</Fact>
          <Fact label={t("gpusHeld")}>
            {quota ? t("heldOf", { held: quota.gpu_held, limit: quota.gpu_limit }) : <Nothing />}
          </Fact>
          <Fact label={t("lastLogin")}>
            <Time at={user.last_login_at} />
          </Fact>
          <Fact label={t("created")}>
            <Time at={user.created_at} />
          </Fact>
          <Fact label={t("id")}>
            <IdText id={user.id} />
          </Fact>
        </FactList>
        <Owns user={user} />
      </PageBody>
    </>
  );
}

function Owns({ user }: { user: User }) {
  const { t } = useTranslation("admin");
  const owned = useOwned(user.id);
  return (
    <section aria-label={t("owned")} className="grid max-w-md gap-2">
      <div className="flex items-baseline justify-between">
        <h2 className="text-sm font-semibold">{t("owned")}</h2>
        <PathLink
          href={`/admin/audit?actor=${encodeURIComponent(user.id)}`}
          className="text-sm text-accent hover:underline"
        >
          {t("auditOf")}
        </PathLink>
      </div>
      <ul className="divide-y rounded-lg border bg-card text-sm">
        {owned.data?.map((row) => (
          <li key={row.kind} className="flex h-8 items-center justify-between px-4">
            {t(`kinds.${row.kind}`, { defaultValue: row.kind })}
            <Num value={row.count} />
          </li>
        ))}
        {owned.data?.length === 0 ? <li className="px-4 py-2 text-soft">{t("ownsNothing")}</li> : null}
      </ul>
    </section>
  );
}
