import { CircleAlert } from "lucide-react";
import { useTranslation } from "react-i18next";
import { toApiError } from "@/api/error";
import { errorMessage } from "@/api/message";
import { Button } from "./Button";
import { ErrorDetails } from "./ErrorNote";

// ErrorPanel stands in place of data that could not be read.
export function ErrorPanel({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  const { t } = useTranslation("errors");
  const e = toApiError(error);
  return (
    <div role="alert" className="mx-auto grid w-full max-w-lg gap-2 px-4 py-12">
      <CircleAlert size={20} aria-hidden className="text-bad" />
      <p className="text-base font-medium">{errorMessage(t, e)}</p>
      {e.status === 403 ? <p className="text-sm text-soft">{t([`who.${e.code}`, "who.other"])}</p> : null}
      <ErrorDetails error={e} />
      {onRetry ? (
        <div className="mt-1">
          <Button onClick={onRetry}>{t("retry", { ns: "app" })}</Button>
        </div>
      ) : null}
    </div>
  );
}
