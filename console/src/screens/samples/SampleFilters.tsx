import { useTranslation } from "react-i18next";
import { FilterBar } from "@/ui";
import type { Sample } from "./api";
import { Histogram } from "./Histogram";
import { RewardInput } from "./RewardInput";
import { numberOf } from "./text";
import type { SamplesView } from "./view";

type Props = { view: SamplesView; change: (change: Partial<SamplesView>) => void; samples: readonly Sample[] };

export function SampleFilters({ view, change, samples }: Props) {
  const { t } = useTranslation("samples");
  const set = view.contains !== undefined || view.min !== undefined || view.max !== undefined;
  const clear = () => change({ contains: undefined, min: undefined, max: undefined });
  return (
    <FilterBar
      query={view.contains ?? ""}
      onQuery={(contains) => change({ contains: contains || undefined, sample: undefined })}
      placeholder={t("contains")}
      onClear={set ? clear : undefined}
      end={
        <Histogram
          values={samples.flatMap((sample) => numberOf(sample.reward) ?? [])}
          onRange={(min, max) => change({ min, max, sample: undefined })}
        />
      }
    >
      <RewardInput label={t("minReward")} value={view.min} onChange={(min) => change({ min, sample: undefined })} />
      <RewardInput label={t("maxReward")} value={view.max} onChange={(max) => change({ max, sample: undefined })} />
    </FilterBar>
  );
}
