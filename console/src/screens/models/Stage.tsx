import { useTranslation } from "react-i18next";
import type { ModelVersion } from "@/api/models";
import { Badge, StateBadge } from "@/ui";

// Stage shows where a version is on its way, and whether its data is protected.
export function Stage({ version }: { version: ModelVersion }) {
  const { t } = useTranslation("models");
  return (
    <>
      {version.status === "rejected" ? <StateBadge state="rejected" /> : null}
      {version.lifecycle === "production" ? (
        <Badge tone="good">{t("lifecycle.production")}</Badge>
      ) : version.lifecycle === "archived" ? (
        <Badge tone="warn">{t("lifecycle.archived")}</Badge>
      ) : (
        <Badge>{t(`lifecycle.${version.lifecycle}`, { defaultValue: version.lifecycle })}</Badge>
      )}
      {version.protected ? <Badge tone="info">{t("protected")}</Badge> : null}
    </>
  );
}
