import { TriangleAlert } from "lucide-react";
import { useEffect, useState } from "react";
import { useTranslation } from "react-i18next";
import type { StreamState } from "@/api/stream";
import { Spinner } from "./Spinner";

const patience = 2000;

// ReconnectingBar shows that the shown data is not live at the moment, or is read now and then because its stream was refused
// for good. A short interruption is not worth a message.
export function ReconnectingBar({ state }: { state: StreamState }) {
  const { t } = useTranslation();
  const lost = state === "reconnecting" || state === "failed";
  const [shown, setShown] = useState(false);
  useEffect(() => {
    if (!lost) {
      setShown(false);
      return;
    }
    const timer = setTimeout(() => setShown(true), patience);
    return () => clearTimeout(timer);
  }, [lost]);
  return (
    <div role="status" className="contents">
      {shown ? (
        <div className="fade-in flex items-center gap-2 bg-warn-tint px-4 py-1.5 text-xs text-warn md:px-6">
          {state === "failed" ? <TriangleAlert size={13} aria-hidden className="shrink-0" /> : <Spinner size={12} />}
          {t(state === "failed" ? "notLive" : "reconnecting")}
        </div>
      ) : null}
    </div>
  );
}
