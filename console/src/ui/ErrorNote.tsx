import { useTranslation } from "react-i18next";
import { toApiError } from "@/api/error";
import { errorMessage } from "@/api/message";
import { cx } from "@/lib/cx";
import { CopyButton } from "./CopyButton";
import { UntrustedText } from "./UntrustedText";

// ErrorNote shows an error inside a form or a dialog. The server's own sentence is under "details".
export function ErrorNote({ error, className }: { error: unknown; className?: string }) {
  const { t } = useTranslation("errors");
  const e = toApiError(error);
  return (
    <div role="alert" className={cx("rounded-md bg-bad-tint px-3 py-2 text-sm text-bad", className)}>
      {errorMessage(t, e)}
      <ErrorDetails error={e} />
    </div>
  );
}

export function ErrorDetails({ error }: { error: unknown }) {
  const { t } = useTranslation();
  const { status, code, detail, requestId } = toApiError(error);
  const report = [status > 0 ? `HTTP ${status}` : "", code ?? "", detail, requestId ?? ""].filter(Boolean).join("\n");
  if (report === "") return null;
  return (
    <details className="mt-1 text-xs text-soft">
      <summary className="w-fit cursor-pointer py-0.5 hover:text-ink">{t("details")}</summary>
      <div className="mt-1 flex items-start gap-2 rounded border bg-card p-2 text-ink">
        <pre className="min-w-0 flex-1 font-mono text-2xs break-words whitespace-pre-wrap">
          <UntrustedText text={report} longest={4000} />
        </pre>
        <CopyButton text={report} />
      </div>
    </details>
  );
}
