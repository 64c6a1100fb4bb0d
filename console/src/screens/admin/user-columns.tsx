import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { useTranslation } from "react-i18next";
import { Badge, type Column, Nothing, StateBadge, Time, UntrustedText } from "@/ui";
import type { Quota, User } from "./api";

export function useUserColumns(quotas: ReadonlyMap<string, Quota> | undefined): Column<User>[] {
  const { t } = useTranslation("admin");
  return useMemo(
    () => [
      {
        id: "username",
        header: t("username"),
        width: "minmax(9rem,1fr)",
        cell: (user) => (
          <Link to="/admin/users/$id" params={{ id: user.id }} className="font-medium hover:underline">
            <UntrustedText text={user.username} longest={128} />
          </Link>
        ),
      },
      {
        id: "name",
        header: t("name"),
        width: "minmax(9rem,1fr)",
        cell: (user) => (user.display_name ? <UntrustedText text={user.display_name} longest={128} /> : <Nothing />),
      },
      {
        id: "email",
        header: t("email"),
        width: "minmax(10rem,1.2fr)",
        cell: (user) =>
          user.email ? <UntrustedText text={user.email} longest={254} className="text-soft" /> : <Nothing />,
      },
      {
        id: "role",
        header: t("role"),
        width: "6rem",
        cell: (user) => <Badge tone={user.role === "admin" ? "info" : "neutral"}>{t(`roles.${user.role}`)}</Badge>,
      },
      {
        id: "state",
        header: t("state"),
        width: "7rem",
        cell: (user) => <StateBadge state={user.disabled_at ? "disabled" : "active"} />,
      },
      {
        id: "quota",
        header: t("gpusHeld"),
        width: "8rem",
        numeric: true,
        cell: (user) => {
          const quota = quotas?.get(user.username);
          return quota ? t("heldOf", { held: quota.gpu_held, limit: quota.gpu_limit }) : <Nothing />;
        },
      },
      {
        id: "login",
        header: t("lastLogin"),
        width: "8rem",
        numeric: true,
        cell: (user) => <Time at={user.last_login_at} />,
      },
    ],
    [t, quotas],
  );
}
