import { useTranslation } from "react-i18next";
import type { Kind } from "./layout";

const kinds: Kind[] = ["held", "free", "closed", "lost", "cpu"];
const colors: Record<Kind, string> = {
  held: "text-accent",
  free: "text-edge",
  closed: "text-warn",
  lost: "text-bad",
  cpu: "text-edge",
};

export function Legend() {
  const { t } = useTranslation("cluster");
  return (
    <ul aria-label={t("legend")} className="flex flex-wrap gap-x-4 gap-y-1 text-xs text-soft">
      {kinds.map((kind) => (
        <li key={kind} className="inline-flex items-center gap-1.5">
          <svg viewBox="0 0 14 14" className={`size-3 ${colors[kind]}`} aria-hidden="true">
            {kind === "cpu" ? (
              <circle cx="7" cy="7" r="6" fill="none" stroke="currentColor" strokeWidth="1.5" />
            ) : (
              <rect
                x="1"
                y="1"
                width="12"
                height="12"
                fill={kind === "held" ? "currentColor" : "none"}
                stroke="currentColor"
                strokeWidth="1.5"
              />
            )}
            {kind === "closed" ? <path d="M3 7h8" stroke="currentColor" strokeWidth="1.5" /> : null}
            {kind === "lost" ? <path d="m4 4 6 6m0-6-6 6" stroke="currentColor" strokeWidth="1.5" /> : null}
          </svg>
          {t(`kind.${kind}`)}
        </li>
      ))}
    </ul>
  );
}
