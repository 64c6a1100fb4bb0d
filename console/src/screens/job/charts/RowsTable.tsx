import { useMemo } from "react";
import { useTranslation } from "react-i18next";
import { type Column, Num, Table } from "@/ui";
import type { Curve } from "./curve";

type Row = { id: string; at: number };
const idOf = (row: Row) => row.id;

// RowsTable has the same values as a chart, for those who cannot see it. over is the metric of the x axis, if it is one.
export function RowsTable({ name, curve, over }: { name: string; curve: Curve; over?: string }) {
  const { t } = useTranslation("job");
  const rows = useMemo(() => curve.x.map((_, at) => ({ id: `${curve.firstStep[at]}-${at}`, at })), [curve]);
  const columns = useMemo<Column<Row>[]>(() => {
    const value = (values: readonly (number | null)[]) => (row: Row) => (
      <Num value={values[row.at] ?? "NaN"} digits={6} />
    );
    const step = (values: readonly number[]) => (row: Row) => <Num value={values[row.at]} />;
    const number = { numeric: true, width: "minmax(6rem,1fr)" };
    const place = over ? [{ id: "x", header: over, cell: value(curve.x), ...number }] : [];
    return curve.bucketed
      ? [
          ...place,
          { id: "first", header: t("rows.first"), cell: step(curve.firstStep), ...number },
          { id: "last", header: t("rows.last"), cell: step(curve.lastStep), ...number },
          { id: "count", header: t("rows.count"), cell: step(curve.counts), ...number },
          { id: "min", header: t("rows.min"), cell: value(curve.min), ...number },
          { id: "mean", header: t("rows.mean"), cell: value(curve.mean), ...number },
          { id: "max", header: t("rows.max"), cell: value(curve.max), ...number },
        ]
      : [
          { id: "step", header: t("rows.step"), cell: step(curve.lastStep), ...number },
          { id: "value", header: t("rows.value"), cell: value(curve.mean), ...number },
        ];
  }, [curve, over, t]);
  return (
    <div className="flex h-96 flex-col">
      <Table label={name} rows={rows} columns={columns} rowId={idOf} />
    </div>
  );
}
