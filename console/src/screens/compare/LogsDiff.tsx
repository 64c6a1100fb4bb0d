import { useTranslation } from "react-i18next";
import LogTail from "@/screens/job/overview/LogTail";
import { EmptyState } from "@/ui";
import { Against, RunName } from "./Against";
import { pairOf } from "./diff";
import type { CompareSearch } from "./search";
import type { Compared } from "./use-compared";

type Props = { runs: readonly Compared[]; search: CompareSearch; onChange: (change: CompareSearch) => void };

const lines = 40;

// LogsDiff has the ends of two logs side by side. Each line leads to its place in its log.
export default function LogsDiff({ runs, search, onChange }: Props) {
  const { t } = useTranslation("compare");
  const pair = pairOf(runs, search.against);
  if (!pair) return <EmptyState title={t("two")} why={t("twoWhy")} />;
  return (
    <div className="grid gap-3">
      <Against runs={runs} pair={pair} onChange={onChange} />
      <div className="grid gap-3 md:grid-cols-2">
        {pair.map((run) => (
          <section key={run.id} aria-label={t("logEnd", { name: run.run.name })} className="grid min-w-0 content-start">
            <h2 className="flex h-8 items-center text-sm">
              <RunName run={run} />
            </h2>
            <LogTail runId={run.run.id} live={run.live} to="/runs/$id/{-$tab}" page={run.run.id} lines={lines} />
          </section>
        ))}
      </div>
    </div>
  );
}
