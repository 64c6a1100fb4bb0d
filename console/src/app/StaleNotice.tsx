import { useEffect, useSyncExternalStore } from "react";
import { useStale } from "@/api/stale";
import { StaleBar } from "@/ui/StaleBar";
import { useInstallation } from "./config";
import { watchOnline } from "./Notices";

const every = 30_000;

// StaleNotice is the notice of all pages that a part of what they show could not be read again. It reads again by itself.
// While the device is offline or the installation is in maintenance, the notice of that shows more.
export default function StaleNotice() {
  const { error, retry } = useStale();
  const { data } = useInstallation();
  const online = useSyncExternalStore(watchOnline, () => navigator.onLine);
  const failed = error !== null;
  useEffect(() => {
    if (!failed || !online) return;
    const timer = setInterval(() => retry(false), every);
    return () => clearInterval(timer);
  }, [failed, online, retry]);
  // What failed while the device was offline is read as soon as it is back.
  useEffect(() => {
    if (online) retry(false);
  }, [online, retry]);
  if (!failed || !online || data?.maintenance) return null;
  return <StaleBar error={error} onRetry={() => retry(true)} />;
}
