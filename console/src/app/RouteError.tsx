import { useRouter } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { useTitle } from "@/lib/title";
import { ErrorPanel } from "@/ui/ErrorPanel";

// RouteError stands in place of a screen that failed. The rest of the console stays, unless the shell itself failed.
export function RouteError({ error, reset }: { error: unknown; reset: () => void }) {
  const { t } = useTranslation();
  const router = useRouter();
  useTitle(t("failed"));
  return (
    <ErrorPanel
      error={error}
      onRetry={() => {
        reset();
        void router.invalidate();
      }}
    />
  );
}
