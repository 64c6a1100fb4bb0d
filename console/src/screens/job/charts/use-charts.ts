import { useCallback, useMemo, useState } from "react";
import { useView } from "@/lib/view";
import { read, write } from "./stored";
import { type ChartView, chartView } from "./view";

const record = (value: unknown): Record<string, unknown> =>
  typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
const strings = (value: unknown): string[] => (Array.isArray(value) ? value.filter((v) => typeof v === "string") : []);

// The scales that are kept for the next visit. The window and the search belong only to an address.
const kept = ({ x, over, smooth, logx, logy }: ChartView): ChartView => ({ x, over, smooth, logx, logy });

// useCharts returns the view of the charts from the address. What the address does not say is as the user left it in this
// project.
export function useCharts(project: string): [ChartView, (change: Partial<ChartView>) => void] {
  const [address, change] = useView<ChartView>(chartView);
  const name = `charts.${project}`;
  const [stored, setStored] = useState(() => kept(chartView(read(name, record))));
  const said = Object.values(kept(address)).some((value) => value !== undefined);
  const view = useMemo<ChartView>(() => (said ? address : { ...address, ...stored }), [said, address, stored]);
  const onView = useCallback(
    (next: Partial<ChartView>) => {
      const after = { ...view, ...next };
      setStored(kept(after));
      write(name, kept(after));
      change({ ...kept(after), ...next });
    },
    [view, name, change],
  );
  return [view, onView];
}

const mostPins = 50;

// usePins returns the metrics that the user pinned in a project.
export function usePins(project: string): [readonly string[], (key: string) => void] {
  const name = `pins.${project}`;
  const [pins, setPins] = useState(() => read(name, strings));
  const toggle = useCallback(
    (key: string) =>
      setPins((before) => {
        const next = before.includes(key) ? before.filter((k) => k !== key) : [...before, key].slice(-mostPins);
        write(name, next);
        return next;
      }),
    [name],
  );
  return [pins, toggle];
}
