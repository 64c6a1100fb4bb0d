import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { ErrorNote, Nothing, Num, SkeletonLines, UntrustedText } from "@/ui";
import type { Summary } from "../api";
import { sections } from "../charts/sections";
import { useSummaries } from "../charts/summaries";

const few = 10;
const head = "h-8 px-2.5 text-right text-xs font-medium text-soft first:text-left";

type Props = { id: string; live: boolean; to: "/jobs/$id/{-$tab}" | "/runs/$id/{-$tab}"; page: string };

// Latest are the newest values of the first metrics. All metrics are in their own tab.
export function Latest({ id, live, to, page }: Props) {
  const { t } = useTranslation("job");
  const { summaries, error } = useSummaries(id, live);
  if (error && !summaries) return <ErrorNote error={error} />;
  if (!summaries) return <SkeletonLines lines={4} />;
  if (summaries.length === 0) return <p className="text-soft">{t("latest.none")}</p>;
  return (
    <div className="overflow-hidden rounded-lg border bg-card">
      <table className="w-full table-fixed text-sm">
        <thead>
          <tr className="border-b">
            {(["metric", "step", "value", "min", "max"] as const).map((name) => (
              <th
                key={name}
                scope="col"
                className={`${head} ${name === "metric" ? "w-2/5" : name === "min" || name === "max" ? "max-sm:hidden" : ""}`}
              >
                {t(`latest.${name}`)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {first(summaries).map((summary) => (
            <Row key={summary.key} summary={summary} />
          ))}
        </tbody>
      </table>
      <Link
        to={to}
        params={{ id: page, tab: "metrics" }}
        className="block border-t px-2.5 py-1.5 text-sm text-accent hover:bg-hover"
      >
        {t("latest.all", { count: summaries.length })}
      </Link>
    </div>
  );
}

// first returns the metrics of the smallest sections: values of each layer would hide the loss.
function first(summaries: readonly Summary[]): Summary[] {
  const byKey = new Map(summaries.map((s) => [s.key, s]));
  return sections([...byKey.keys()], "")
    .sort((a, b) => a.keys.length - b.keys.length)
    .flatMap((group) => group.keys.flatMap((key) => byKey.get(key) ?? []))
    .slice(0, few)
    .sort((a, b) => (a.key < b.key ? -1 : 1));
}

function Row({ summary }: { summary: Summary }) {
  const { latest, min, max } = summary;
  const cell = "h-8 px-2.5 text-right";
  return (
    <tr className="border-b last:border-b-0">
      <th scope="row" className="h-8 truncate px-2.5 text-left font-mono text-xs font-normal">
        <UntrustedText text={summary.key} longest={128} />
      </th>
      <td className={`${cell} text-soft`}>{latest ? <Num value={latest.step} /> : <Nothing />}</td>
      <td className={`${cell} font-medium`}>
        <Num value={latest?.value} />
      </td>
      <td className={`${cell} max-sm:hidden`}>
        <Num value={min?.value} />
      </td>
      <td className={`${cell} max-sm:hidden`}>
        <Num value={max?.value} />
      </td>
    </tr>
  );
}
