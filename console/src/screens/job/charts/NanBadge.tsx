import { useTranslation } from "react-i18next";
import { formatNumber } from "@/lib/format";
import { useFormats } from "@/lib/prefs";
import { Badge, Tooltip } from "@/ui";
import { firstBad } from "./curve";
import type { Line } from "./plot-data";
import type { Summary } from "./summaries";

type Props = { summary: Summary; lines: readonly Line[]; zoomed: boolean };

// NanBadge shows how many points are NaN or infinite, and where the first one is.
export function NanBadge({ summary, lines, zoomed }: Props) {
  const { t } = useTranslation("job");
  const { tag } = useFormats();
  const curve = lines[0]?.curve;
  const first = curve && !zoomed ? firstBad(curve) : null;
  const [from, to] = (first ?? [0, 0]).map((step) => formatNumber(step, tag));
  const place = first ? (first[0] === first[1] ? t("nan.at", { step: to }) : t("nan.between", { from, to })) : "";
  const total = t("nan.count", { count: summary.nan, total: formatNumber(summary.nan, tag) });
  return (
    <Tooltip text={place ? t("nan.both", { total, place }) : total}>
      <button
        type="button"
        aria-label={place ? t("nan.both", { total, place }) : total}
        className="ml-1 min-w-0 truncate rounded"
      >
        <Badge tone="warn">{place || total}</Badge>
      </button>
    </Tooltip>
  );
}
