import { Ellipsis, Maximize2, Pin, PinOff } from "lucide-react";
import { type ReactNode, type RefObject, useMemo, useRef } from "react";
import { useTranslation } from "react-i18next";
import type uPlot from "uplot";
import { cx } from "@/lib/cx";
import { useFormats } from "@/lib/prefs";
import { useTheme } from "@/theme/theme";
import { DropdownMenu, ErrorNote, IconButton, MenuItem, UntrustedText } from "@/ui";
import { download } from "./download";
import { toCsv, toPng } from "./export";
import { Plot } from "./Plot";
import { badX, type Line, plotData } from "./plot-data";
import { Sampling } from "./Sampling";
import type { ChartView } from "./view";

export type CardProps = {
  name: string;
  lines: readonly Line[];
  view: ChartView;
  // Whether the chart has a canvas now.
  drawn: boolean;
  error: unknown;
  height: number;
  label: string;
  // The reading in the head of the card follows the cursor; the badge warns in its foot.
  badge?: ReactNode;
  reading: ReactNode;
  onCursor: (row: number | null, own: boolean) => void;
  // onHold is called with a row that is clicked.
  onHold?: (row: number) => void;
  onView: (change: Partial<ChartView>) => void;
  onExpand?: () => void;
  onTable?: () => void;
  pinned?: boolean;
  onPin?: () => void;
  overlay?: ReactNode;
  // Lines that are means of runs say of how many.
  runs?: number;
};

// Buttons that appear when the pointer or the focus is in the card. Without a pointer that hovers, they are always shown.
const quiet = "[@media(hover:hover)]:not-group-hover:not-group-focus-within:opacity-0";

// ChartCard is a metric as a chart: of one run, or of several above each other.
export function ChartCard(props: CardProps) {
  const { name, lines, view, drawn, error, height } = props;
  const { t } = useTranslation("job");
  const plot = useRef<uPlot | null>(null);
  const save = async () => {
    const blob = plot.current ? await toPng(plot.current, name) : null;
    if (blob) download(blob, `${name}.png`);
  };
  const csv = () =>
    download(new Blob([toCsv(lines, view.x ?? "step", view.over)], { type: "text/csv" }), `${name}.csv`);
  return (
    <article aria-label={name} className="group relative min-w-0 rounded-lg border bg-card">
      <header className="flex h-8 items-center gap-1.5 pr-1 pl-3">
        <h3 className="max-w-[60%] shrink-0 truncate font-mono text-xs">
          <UntrustedText text={name} longest={256} />
        </h3>
        <span className="tabular ml-auto min-w-0 truncate pl-2 text-xs text-soft">{props.reading}</span>
        <DropdownMenu
          trigger={
            <IconButton
              label={t("chart.menu", { name })}
              tip={false}
              icon={<Ellipsis size={14} aria-hidden />}
              className="size-6"
            />
          }
        >
          {props.onTable ? <MenuItem onSelect={props.onTable}>{t("chart.table")}</MenuItem> : null}
          <MenuItem onSelect={() => void save()}>{t("chart.png")}</MenuItem>
          <MenuItem onSelect={csv}>{t("chart.csv")}</MenuItem>
        </DropdownMenu>
      </header>
      <div style={{ height }} className="relative px-1">
        {error && lines.length === 0 ? (
          <ErrorNote error={error} className="m-2" />
        ) : drawn && lines.length > 0 ? (
          <Drawing {...props} plot={plot} />
        ) : null}
        {props.overlay}
      </div>
      <footer className="flex h-6 items-center gap-1 pr-1 pb-1 pl-3">
        <Sampling lines={lines} runs={props.runs} />
        {props.badge}
        <span className="ml-auto" />
        {props.onPin ? (
          <IconButton
            label={props.pinned ? t("chart.unpin") : t("chart.pin")}
            icon={props.pinned ? <PinOff size={13} aria-hidden /> : <Pin size={13} aria-hidden />}
            onClick={props.onPin}
            className={cx("size-5", !props.pinned && quiet)}
          />
        ) : null}
        {props.onExpand ? (
          <IconButton
            label={t("chart.expand")}
            icon={<Maximize2 size={13} aria-hidden />}
            onClick={props.onExpand}
            className={cx("size-5", quiet)}
          />
        ) : null}
      </footer>
    </article>
  );
}

function Drawing({
  lines,
  view,
  height,
  label,
  onCursor,
  onHold,
  onView,
  plot,
}: CardProps & { plot: RefObject<uPlot | null> }) {
  const { tag, zone } = useFormats();
  const { shown } = useTheme();
  const { x = "step", smooth = 0, logx = false, logy = false, from, to } = view;
  const data = useMemo(
    () => plotData(lines, { smoothing: smooth, logX: logx, logY: logy }),
    [lines, smooth, logx, logy],
  );
  const window: readonly [number, number] | null = from !== undefined && to !== undefined ? [from, to] : null;
  const settings = { lines, x, logX: logx, logY: logy, smoothing: smooth, window, sync: "metrics", tag, zone };
  const colors = lines.map((l) => l.id + l.color + String(l.curve.bucketed));
  const shape = JSON.stringify([colors, x, logx, logy, smooth > 0, window, shown, tag, zone]);
  const events = {
    zoom: (start: number, end: number) => onView({ from: start, to: end }),
    reset: () => onView({ from: undefined, to: undefined }),
    cursor: onCursor,
    hold: (row: number) => onHold?.(row),
    bad: () => badX(lines, logx),
  };
  return (
    <Plot
      settings={settings}
      events={events}
      data={data}
      height={height}
      shape={shape}
      label={label}
      onReady={(made) => {
        plot.current = made;
      }}
    />
  );
}
