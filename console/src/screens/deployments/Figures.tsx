import { useTranslation } from "react-i18next";
import { ErrorNote, Nothing, Num, Time } from "@/ui";
import { useMetrics } from "./api";
import { type Point, total } from "./deployment";
import { type Range, stepOf } from "./search";

type Props = { id: string; range: Range; token?: string; revision?: number };

// Figures is the traffic of a range: its sums, the calls of each step as bars, and the same as a table.
export function Figures({ id, range, token, revision }: Props) {
  const { t } = useTranslation("deployments");
  const { seconds, step } = stepOf(range);
  const { data, error } = useMetrics(id, seconds, step, { token, revision });
  const points = data?.points ?? [];
  const all = total(points);
  if (error && !data) return <ErrorNote error={error} />;
  const figures: [string, number | null, string?][] = [
    [t("calls"), all.calls],
    [t("failedCalls"), all.failed],
    [t("p95"), all.p95, t("ms")],
    [t("ttft"), all.ttft, t("ms")],
    [t("prompted"), all.promptTokens],
    [t("generated"), all.completionTokens],
  ];
  return (
    <div className="rounded-lg border bg-card">
      <dl className="flex flex-wrap gap-x-8 gap-y-1 px-4 py-2.5">
        {figures.map(([label, value, unit]) => (
          <div key={label} className="min-w-20">
            <dt className="text-xs text-soft">{label}</dt>
            <dd className="font-medium">
              {data ? <Num value={value} digits={0} unit={value === null ? undefined : unit} /> : <Nothing />}
            </dd>
          </div>
        ))}
      </dl>
      <Bars
        points={points}
        seconds={seconds}
        step={step}
        summary={t("barsSummary", { calls: all.calls, failed: all.failed })}
      />
      <details className="border-t px-4 py-1 text-xs">
        <summary className="w-fit cursor-pointer py-0.5 text-soft hover:text-ink">{t("asTable")}</summary>
        <PointsTable points={points} />
      </details>
    </div>
  );
}

const height = 56;

// slots puts the steps with calls into a row of all steps of the range.
export function slots(points: readonly Point[], end: number, seconds: number, step: number): (Point | null)[] {
  const count = Math.ceil(seconds / step);
  const row: (Point | null)[] = Array.from({ length: count }, () => null);
  for (const point of points) {
    const slot = count - 1 - Math.floor((end - Date.parse(point.at ?? "")) / (step * 1000));
    if (slot >= 0 && slot < count) row[slot] = point;
  }
  return row;
}

function Bars({
  points,
  seconds,
  step,
  summary,
}: {
  points: readonly Point[];
  seconds: number;
  step: number;
  summary: string;
}) {
  const row = slots(points, Date.now(), seconds, step);
  const most = Math.max(1, ...points.map((p) => p.calls));
  return (
    <svg
      role="img"
      aria-label={summary}
      viewBox={`0 0 ${row.length} ${height}`}
      preserveAspectRatio="none"
      className="block h-14 w-full px-4 pb-2"
    >
      {row.map((point, at) => {
        if (!point) return null;
        const all = (point.calls / most) * (height - 2);
        const bad = (point.failed / most) * (height - 2);
        return (
          <g key={point.at}>
            <rect x={at + 0.1} width={0.8} y={height - all} height={all} className="fill-accent" />
            <rect x={at + 0.1} width={0.8} y={height - bad} height={bad} className="fill-bad" />
          </g>
        );
      })}
    </svg>
  );
}

function PointsTable({ points }: { points: readonly Point[] }) {
  const { t } = useTranslation("deployments");
  return (
    <div className="scroll-thin max-h-64 overflow-auto">
      <table className="w-full text-right">
        <thead className="text-soft">
          <tr>
            <th className="py-1 text-left font-medium">{t("time")}</th>
            <th className="font-medium">{t("calls")}</th>
            <th className="font-medium">{t("failedCalls")}</th>
            <th className="font-medium">{t("p95")}</th>
            <th className="font-medium">{t("ttft")}</th>
          </tr>
        </thead>
        <tbody>
          {points.map((point) => (
            <tr key={point.at}>
              <td className="py-0.5 text-left">
                <Time at={point.at} absolute />
              </td>
              <td>
                <Num value={point.calls} />
              </td>
              <td>
                <Num value={point.failed} />
              </td>
              <td>
                <Num value={point.duration_p95_ms} digits={0} />
              </td>
              <td>
                <Num value={point.ttft_p95_ms} digits={0} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
