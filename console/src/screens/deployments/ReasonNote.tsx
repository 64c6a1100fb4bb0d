import { useTranslation } from "react-i18next";
import { UntrustedText } from "@/ui";
import type { Reason } from "./deployment";
import { useReason } from "./reason";

// ReasonNote shows why something is not ready. The engine's own words are behind a disclosure.
export function ReasonNote({ reason }: { reason: Reason }) {
  const { t } = useTranslation("deployments");
  const text = useReason(reason);
  const own = [reason.message, reason.log_excerpt].filter(Boolean).join("\n\n");
  return (
    <div className="rounded-md bg-warn-tint px-3 py-2 text-sm text-warn">
      {text}
      {own !== "" ? (
        <details className="mt-1 text-xs text-soft">
          <summary className="w-fit cursor-pointer py-0.5 hover:text-ink">{t("details")}</summary>
          <pre className="scroll-thin mt-1 max-h-60 overflow-auto rounded border bg-card p-2 font-mono text-2xs whitespace-pre-wrap text-ink">
            <UntrustedText text={own} longest={20_000} />
          </pre>
        </details>
      ) : null}
    </div>
  );
}
