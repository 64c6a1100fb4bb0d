import { useTranslation } from "react-i18next";
import { session } from "@/auth/browser";
import { firstJobScript } from "@/lib/commands";
import { Button, EmptyState } from "@/ui";

type Props = { filtered: boolean; project?: string; onClear: () => void };

export function JobsEmpty({ filtered, project, onClear }: Props) {
  const { t } = useTranslation("jobs");
  if (filtered)
    return (
      <EmptyState
        title={t("noMatch")}
        why={t("noMatchWhy")}
        action={<Button onClick={onClear}>{t("clearFilters")}</Button>}
      />
    );
  const user = session.user?.username ?? "";
  const command = firstJobScript(location.origin, user, project ?? "default");
  return <EmptyState title={t("empty")} why={t("emptyWhy")} command={command} docs="/docs" />;
}
