import { useTranslation } from "react-i18next";
import type { ModelVersion } from "@/api/models";
import { Badge, StateBadge } from "@/ui";

// Stage shows where a version is on its way, and whether its data is protected or its files can run code.
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
      {version.pickle ? (
        <span title={t("pickleWhy")}>
          <Badge tone="warn">{t("pickle")}</Badge>
        </span>
      ) : null}
      {version.protected ? <Badge tone="info">{t("protected")}</Badge> : null}
    </>
  );
}
