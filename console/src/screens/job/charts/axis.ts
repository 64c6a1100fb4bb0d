import { formatDuration } from "@/lib/format";
import type { XKind } from "./curve";

// axisNumber writes a number in little space, with as many digits as an axis or a reading needs.
export function axisNumber(value: number, tag: string, digits = 4): string {
  const size = Math.abs(value);
  const notation = size !== 0 && (size >= 1e6 || size < 1e-4) ? "scientific" : "standard";
  return new Intl.NumberFormat(tag, { notation, maximumSignificantDigits: digits }).format(value);
}

// axisTexts writes the marks of the x axis. A logarithmic axis has marks without a text, which are null.
export function axisTexts(
  values: readonly (number | null)[],
  x: XKind,
  tag: string,
  zone: string | undefined,
): string[] {
  if (x === "metric") return values.map((v) => (v === null ? "" : axisNumber(v, tag)));
  if (x === "step") return values.map((v) => (v === null ? "" : axisNumber(v, tag, 7)));
  if (x === "relative") return values.map((v) => (v === null ? "" : span(v, tag)));
  const whole = (values.at(-1) ?? 0) - (values[0] ?? 0);
  const options: Intl.DateTimeFormatOptions =
    whole > 3 * 86_400
      ? { month: "short", day: "numeric" }
      : whole < 300
        ? { hour: "2-digit", minute: "2-digit", second: "2-digit" }
        : { hour: "2-digit", minute: "2-digit" };
  const format = new Intl.DateTimeFormat(tag, { ...options, timeZone: zone });
  return values.map((v) => (v === null ? "" : format.format(v * 1000)));
}

// span writes the time since the start of a run. Points from before the start have a sign.
export function span(seconds: number, tag: string): string {
  const text = formatDuration(Math.abs(seconds), tag);
  return seconds < 0 ? `\u2212${text}` : text;
}
