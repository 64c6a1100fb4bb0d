import { useTranslation } from "react-i18next";
import { Bytes, Nothing, Num } from "@/ui";

const units: Record<string, string> = { util: "%", cpu: "%", power: "W", temp: "°C" };
const bytes = ["mem"];
const rates = ["net_rx", "net_tx", "disk_read", "disk_write"];

// Amount is a value of a hardware measure with its unit.
export function Amount({ value, measure }: { value: number | null; measure: string }) {
  const { t } = useTranslation("job");
  if (value === null) return <Nothing />;
  if (bytes.includes(measure)) return <Bytes value={value} />;
  if (rates.includes(measure))
    return (
      <span className="whitespace-nowrap">
        <Bytes value={value} />
        <span className="text-soft">{t("system.perSecond")}</span>
      </span>
    );
  return <Num value={value} digits={Math.abs(value) >= 100 ? 0 : 1} unit={units[measure]} />;
}
