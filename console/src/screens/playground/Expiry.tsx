import { useTranslation } from "react-i18next";
import { useNow } from "@/lib/now";
import { Button, Duration, UntrustedText } from "@/ui";
import { isOver, type Session } from "./api";

// The banner appears this many seconds before the end.
const warnAt = 120;

// useLeft returns the seconds until the session expires.
export function useLeft(session: Session): number {
  const now = useNow(1000);
  return session.expires_at ? Math.ceil((Date.parse(session.expires_at) - now) / 1000) : Number.POSITIVE_INFINITY;
}

export function Expiry({ session, left, onExtend }: { session: Session; left: number; onExtend: () => void }) {
  const { t } = useTranslation("playground");
  const bar = "flex flex-wrap items-center gap-3 px-4 py-1.5 text-sm md:px-6";
  if (isOver(session) || left <= 0) {
    return (
      <div role="status" className={`${bar} bg-hover text-soft`}>
        {t(`over.${session.state}`, { defaultValue: t("over.expired") })}
        {session.reason && session.state === "failed" ? <UntrustedText text={session.reason} longest={500} /> : null}
      </div>
    );
  }
  if (left > warnAt) return null;
  return (
    <div role="status" className={`${bar} bg-warn-tint text-warn`}>
      {t("expires")}
      <span aria-live="off">
        <Duration from={new Date().toISOString()} to={session.expires_at} />
      </span>
      <Button size="sm" onClick={onExtend}>
        {t("extend")}
      </Button>
    </div>
  );
}
