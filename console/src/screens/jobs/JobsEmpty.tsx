import { useTranslation } from "react-i18next";
import { afterLogIn, firstJobCommand } from "@/lib/commands";
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
  const command = afterLogIn(location.origin, firstJobCommand(project ?? "default"));
  return <EmptyState title={t("empty")} why={t("emptyWhy")} command={command} docs="/docs" />;
}
