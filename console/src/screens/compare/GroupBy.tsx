import { useTranslation } from "react-i18next";
import { Select, UntrustedText } from "@/ui";

type Props = { choices: readonly string[]; value: string | undefined; onChange: (by: string | undefined) => void };

const none = "*none";
const all = "*all";

// GroupBy chooses whether each run has a line, or each group of runs a mean with a band.
export function GroupBy({ choices, value, onChange }: Props) {
  const { t } = useTranslation("compare");
  const chosen = value === undefined ? none : value === "" ? all : `=${value}`;
  const names = value && !choices.includes(value) ? [value, ...choices] : choices;
  const read = (next: string) => (next === none ? undefined : next === all ? "" : next.slice(1));
  return (
    <Select
      label={t("group.by")}
      value={chosen}
      onChange={(next) => onChange(read(next))}
      options={[
        { value: none, label: t("group.none") },
        { value: all, label: t("group.all") },
        ...names.map((name) => ({ value: `=${name}`, label: <UntrustedText text={name} longest={60} /> })),
      ]}
      className="w-44"
    />
  );
}
