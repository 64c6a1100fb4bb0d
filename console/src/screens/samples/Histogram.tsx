import { useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { cx } from "@/lib/cx";
import { formatNumber } from "@/lib/format";
import { useFormats } from "@/lib/prefs";
import { histogram } from "./bins";

const bins = 24;

type Props = { values: readonly number[]; onRange: (min: number, max: number) => void };

// Histogram shows how the rewards of the loaded samples are spread. Dragging over it selects a range; the two fields beside
// it do the same by keyboard.
export function Histogram({ values, onRange }: Props) {
  const { t } = useTranslation("samples");
  const { tag } = useFormats();
  const bars = useMemo(() => histogram(values, bins), [values]);
  const [drag, setDrag] = useState<[number, number] | null>(null);
  if (bars.length < 2) return null;
  const most = Math.max(...bars.map((bar) => bar.count));
  const number = (value: number) => formatNumber(value, tag, { maximumFractionDigits: 3 });
  const place = (event: React.PointerEvent) => {
    const box = event.currentTarget.getBoundingClientRect();
    return Math.max(0, Math.min(bars.length - 1, Math.floor(((event.clientX - box.left) / box.width) * bars.length)));
  };
  const inside = (at: number) => drag !== null && at >= Math.min(...drag) && at <= Math.max(...drag);
  const finish = () => {
    if (drag === null) return;
    const from = bars[Math.min(...drag)];
    const to = bars[Math.max(...drag)];
    setDrag(null);
    if (from && to) onRange(from.from, to.to);
  };
  return (
    <div
      role="img"
      aria-label={t("histogram", { low: number(bars[0]?.from ?? 0), high: number(bars.at(-1)?.to ?? 0) })}
      title={t("histogramHint")}
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId);
        setDrag([place(event), place(event)]);
      }}
      onPointerMove={(event) => drag && setDrag([drag[0], place(event)])}
      onPointerUp={finish}
      onPointerCancel={() => setDrag(null)}
      className="hidden h-8 w-48 cursor-crosshair touch-none items-end gap-px border-b md:flex"
    >
      {bars.map((bar, at) => (
        <span
          key={bar.from}
          className={cx("flex-1", inside(at) ? "bg-accent" : "bg-edge/60")}
          style={{ height: bar.count === 0 ? 0 : `${Math.max(6, (bar.count / most) * 100)}%` }}
        />
      ))}
    </div>
  );
}
