import { RotateCcw } from "lucide-react";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { Button, Checkbox, FilterBar } from "@/ui";
import { MorePopover } from "@/ui/MorePopover";
import { AxisPicker } from "./AxisPicker";
import { type ChartView, countScales } from "./view";

type ScalesProps = {
  view: ChartView;
  onView: (change: Partial<ChartView>) => void;
  // The metrics that can be the x axis.
  keys?: readonly string[];
};

type Props = ScalesProps & {
  onSearch: (key: string) => void;
  // onTyped is called with the text of the search at once.
  onTyped?: (key: string) => void;
  end?: ReactNode;
};

// ChartBar has the controls of all charts: which metrics, what the x axis is, smoothing and scales. It is one row, or two on
// a phone.
export function ChartBar({ onSearch, onTyped, end, ...scales }: Props) {
  const { view, onView } = scales;
  const { t } = useTranslation("job");
  return (
    <FilterBar
      query={view.key ?? ""}
      onQuery={onSearch}
      onText={onTyped}
      placeholder={t("bar.search")}
      end={
        <>
          <ResetZoom view={view} onView={onView} />
          {end}
        </>
      }
    >
      <div className="hidden items-center gap-2 xl:flex">
        <Scales {...scales} />
      </div>
      <div className="xl:hidden">
        <MorePopover name={t("bar.view")} count={countScales(view)}>
          <Scales {...scales} />
        </MorePopover>
      </div>
    </FilterBar>
  );
}

// ResetZoom is there while the charts show a part of the x axis.
export function ResetZoom({ view, onView, size }: Pick<ScalesProps, "view" | "onView"> & { size?: "sm" }) {
  const { t } = useTranslation("job");
  if (view.from === undefined) return null;
  return (
    <Button
      size={size}
      icon={<RotateCcw size={13} aria-hidden />}
      onClick={() => onView({ from: undefined, to: undefined })}
    >
      {t("bar.reset")}
    </Button>
  );
}

function Scales({ view, onView, keys = [] }: ScalesProps) {
  const { t } = useTranslation("job");
  const { x = "step", smooth = 0 } = view;
  return (
    <>
      <AxisPicker view={view} onView={onView} keys={keys} />
      <label className="inline-flex h-8 items-center gap-2 text-sm">
        <span className="text-soft">{t("bar.smoothing")}</span>
        <input
          type="range"
          min={0}
          max={0.99}
          step={0.01}
          value={smooth}
          onChange={(event) => onView({ smooth: Number(event.target.value) || undefined })}
          className="w-24 accent-(--accent) max-xl:flex-1"
        />
        <output className="tabular w-8 text-xs text-soft">{smooth.toFixed(2)}</output>
      </label>
      <Checkbox
        showLabel
        label={t("bar.logY")}
        checked={view.logy === true}
        onChange={(on) => onView({ logy: on || undefined })}
      />
      <Checkbox
        showLabel
        label={t("bar.logX")}
        checked={view.logx === true}
        disabled={x === "time"}
        onChange={(on) => onView({ logx: on || undefined })}
      />
    </>
  );
}
