import { useRouter } from "@tanstack/react-router";
import { ScrollText } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { errorMessage } from "@/api/message";
import { useFormats } from "@/lib/prefs";
import { Button, toast } from "@/ui";
import { axisNumber } from "./axis";
import { lineAt } from "./log-at";

// Enter in a chart shows the button, and Enter again follows it.
const focus = (button: HTMLButtonElement | null) => button?.focus({ preventScroll: true });

type Props = { runId: string; metric: string; step: number };

// LogAt leads from a point of a chart to the log at that moment.
export function LogAt({ runId, metric, step }: Props) {
  const { t } = useTranslation("job");
  const { tag } = useFormats();
  const router = useRouter();
  const [busy, setBusy] = useState(false);
  const open = async () => {
    setBusy(true);
    try {
      const line = await lineAt(runId, metric, step);
      if (line === null) {
        toast.error(t("logAt.none"));
        return;
      }
      const page = router.state.location.pathname.split("/").slice(0, 3).join("/");
      await router.navigate({ href: `${page}/logs#L${line}` });
    } catch (error) {
      toast.error(errorMessage(t, error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <Button
      variant="quiet"
      size="sm"
      ref={focus}
      className="h-5! px-1.5!"
      busy={busy}
      icon={<ScrollText size={12} aria-hidden />}
      onClick={() => void open()}
    >
      {t("logAt.open", { step: axisNumber(step, tag, 12) })}
    </Button>
  );
}
