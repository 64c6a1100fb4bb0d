import { useTranslation } from "react-i18next";
import { Select, UntrustedText } from "@/ui";
import { Swatch } from "./Swatch";
import type { CompareSearch } from "./search";
import type { Compared } from "./use-compared";

type Props = { runs: readonly Compared[]; pair: [Compared, Compared]; onChange: (change: CompareSearch) => void };

// Against chooses the run whose texts are shown beside those of the baseline.
export function Against({ runs, pair: [base, other], onChange }: Props) {
  const { t } = useTranslation("compare");
  if (runs.length < 3) return null;
  return (
    <Select
      label={t("against")}
      value={other.id}
      onChange={(against) => onChange({ against })}
      options={runs
        .filter((run) => run !== base)
        .map((run) => ({ value: run.id, label: <UntrustedText text={run.run.name} longest={60} /> }))}
      className="w-52"
    />
  );
}

// RunName is the name of a run beside a piece of its line.
export function RunName({ run: { run, ink } }: { run: Compared }) {
  return (
    <span className="inline-flex min-w-0 items-center gap-1.5">
      <Swatch ink={ink} />
      <UntrustedText text={run.name} longest={60} className="min-w-0 truncate font-medium" />
    </span>
  );
}
