import { formatBytes, formatNumber } from "@/lib/format";
import { useFormats } from "@/lib/prefs";
import { Nothing } from "./Time";

type Value = number | "NaN" | "Infinity" | "-Infinity" | null | undefined;

// Num shows a number of the API, which may be one of the strings for NaN and the infinities.
export function Num({ value, digits, unit }: { value: Value; digits?: number; unit?: string }) {
  const { tag } = useFormats();
  if (value === null || value === undefined) return <Nothing />;
  if (typeof value === "string") return <span className="text-warn tabular">{value.replace("Infinity", "∞")}</span>;
  const small = value !== 0 && Math.abs(value) < 0.001;
  const options: Intl.NumberFormatOptions = small
    ? { notation: "scientific", maximumFractionDigits: digits ?? 2 }
    : { maximumFractionDigits: digits ?? 4 };
  return (
    <span className="tabular whitespace-nowrap">
      {formatNumber(value, tag, options)}
      {unit ? <span className="text-soft"> {unit}</span> : null}
    </span>
  );
}

export function Bytes({ value }: { value: number | null | undefined }) {
  const { tag } = useFormats();
  if (value === null || value === undefined) return <Nothing />;
  return <span className="tabular whitespace-nowrap">{formatBytes(value, tag)}</span>;
}

// Meter shows a share as a thin bar. Its label names what is measured, for screen readers.
export function Meter({
  value,
  max,
  label,
  tone = "accent",
}: {
  value: number;
  max: number;
  label: string;
  tone?: "accent" | "warn" | "bad";
}) {
  const share = max > 0 ? Math.min(1, value / max) : 0;
  const color = { accent: "bg-accent", warn: "bg-warn", bad: "bg-bad" }[tone];
  return (
    <div
      role="meter"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={max}
      aria-valuenow={Math.min(value, max)}
      className="h-1.5 w-full overflow-hidden rounded-full bg-hover"
    >
      <div className={`h-full rounded-full ${color}`} style={{ width: `${share * 100}%` }} />
    </div>
  );
}
