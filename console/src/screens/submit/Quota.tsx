import { useTranslation } from "react-i18next";
import { useQuota } from "./api";

// Quota shows how many GPUs the user may hold, and holds.
export function Quota() {
  const { t } = useTranslation("submit");
  const { data } = useQuota(true);
  if (!data) return null;
  return (
    <p className="tabular text-xs">
      {t("quota", { name: data.subject, limit: data.gpu_limit, held: data.gpu_held, queued: data.gpu_queued })}
    </p>
  );
}
