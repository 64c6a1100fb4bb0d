import { useMemo } from "react";
import { useTranslation } from "react-i18next";
import { formatNumber } from "@/lib/format";
import { useFormats } from "@/lib/prefs";
import { plain } from "@/lib/untrusted";
import { axisTexts } from "@/screens/job/charts/axis";
import type { Line } from "@/screens/job/charts/plot-data";
import type { ChartView } from "@/screens/job/charts/view";
import { type Column, Dialog, ErrorNote, Nothing, Num, SkeletonLines, Table, UntrustedText } from "@/ui";
import { mostPlaces, placesOf, valueAt } from "./line-rows";

type Shown = { name: string; lines: readonly Line[]; view: ChartView };
type Props = Shown & { error: unknown; onClose: () => void };

const idOf = (place: number) => String(place);

// LinesTable has the same values as a chart of several lines, for those who cannot see it: a column for each line.
export default function LinesTable({ name, lines, view, error, onClose }: Props) {
  return (
    <Dialog
      open
      size="lg"
      onOpenChange={(open) => !open && onClose()}
      title={<UntrustedText text={name} longest={256} className="font-mono text-sm" />}
    >
      {lines.length > 0 ? (
        <Rows name={name} lines={lines} view={view} />
      ) : error ? (
        <ErrorNote error={error} />
      ) : (
        <SkeletonLines lines={6} />
      )}
    </Dialog>
  );
}

function Rows({ name, lines, view }: Shown) {
  const { t } = useTranslation("compare");
  const { tag, zone } = useFormats();
  const { x = "step", over } = view;
  const places = useMemo(() => placesOf(lines), [lines]);
  const columns = useMemo<Column<number>[]>(() => {
    const first: Column<number> = {
      id: "place",
      header: over ?? t(`place.${x}`),
      cell: (place) =>
        x === "step" ? (
          <Num value={place} />
        ) : x === "time" ? (
          new Intl.DateTimeFormat(tag, { dateStyle: "short", timeStyle: "medium", timeZone: zone }).format(place * 1000)
        ) : (
          axisTexts([place], x, tag, zone)[0]
        ),
      numeric: true,
      width: "minmax(8rem,1fr)",
    };
    return [
      first,
      ...lines.map(
        (line, at): Column<number> => ({
          id: `${at} ${line.id}`,
          header: plain(line.name) ?? line.id,
          cell: (place) => {
            const value = valueAt(line.curve, place, x === "step");
            return value === undefined ? <Nothing /> : <Num value={value ?? "NaN"} digits={6} />;
          },
          numeric: true,
          width: "minmax(7rem,1fr)",
        }),
      ),
    ];
  }, [lines, x, over, tag, zone, t]);
  return (
    <div className="flex h-96 flex-col gap-2">
      <Table label={name} rows={places.slice(0, mostPlaces)} columns={columns} rowId={idOf} />
      <p className="text-xs text-soft">
        {lines.some((line) => line.curve.bucketed) ? t("tableMeans") : null}
        {places.length > mostPlaces ? ` ${t("tableCut", { shown: formatNumber(mostPlaces, tag) })}` : null}
      </p>
    </div>
  );
}
