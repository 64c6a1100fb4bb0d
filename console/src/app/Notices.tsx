import { useQueryClient } from "@tanstack/react-query";
import { Info, TriangleAlert } from "lucide-react";
import { useEffect, useRef, useSyncExternalStore } from "react";
import { useTranslation } from "react-i18next";
import { UntrustedText } from "@/ui/UntrustedText";
import { useInstallation } from "./config";

// useAfterMaintenance reads everything again when the maintenance mode has ended.
function useAfterMaintenance(on: boolean): void {
  const queries = useQueryClient();
  const before = useRef(on);
  useEffect(() => {
    if (before.current && !on) void queries.invalidateQueries();
    before.current = on;
  }, [on, queries]);
}

export function watchOnline(listener: () => void): () => void {
  addEventListener("online", listener);
  addEventListener("offline", listener);
  return () => {
    removeEventListener("online", listener);
    removeEventListener("offline", listener);
  };
}

// Notices are the state of the connection, the admins' announcement and the notice of the maintenance mode.
export function Notices() {
  const { t } = useTranslation();
  const { data } = useInstallation();
  useAfterMaintenance(Boolean(data?.maintenance));
  const online = useSyncExternalStore(watchOnline, () => navigator.onLine);
  return (
    <>
      {online ? null : (
        <p role="status" className="flex items-center gap-2 bg-warn-tint px-4 py-1.5 text-xs text-warn md:px-6">
          <TriangleAlert size={13} aria-hidden className="shrink-0" />
          {t("offline")}
        </p>
      )}
      {data?.maintenance ? (
        <p role="status" className="flex items-center gap-2 bg-warn-tint px-4 py-1.5 text-xs text-warn md:px-6">
          <TriangleAlert size={13} aria-hidden className="shrink-0" />
          <UntrustedText text={data.maintenance.message} />
        </p>
      ) : null}
      {data?.announcement ? (
        <p className="flex items-center gap-2 bg-info-tint px-4 py-1.5 text-xs text-info md:px-6">
          <Info size={13} aria-hidden className="shrink-0" />
          <UntrustedText text={data.announcement} />
        </p>
      ) : null}
    </>
  );
}
