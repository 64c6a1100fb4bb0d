// Formatting of numbers and times in the user's language. The functions take everything as arguments, so that tests need
// no browser.

// A formatter of Intl takes much longer to make than to use, and a list formats many values, so they are kept.
function kept<O, F>(make: (tag: string, options: O) => F): (tag: string, options: O) => F {
  const formatters = new Map<string, F>();
  return (tag, options) => {
    const key = `${tag} ${JSON.stringify(options)}`;
    const known = formatters.get(key);
    if (known) return known;
    const made = make(tag, options);
    if (formatters.size >= mostKept) formatters.clear();
    formatters.set(key, made);
    return made;
  };
}

const mostKept = 200;
const numbers = kept((tag, options: Intl.NumberFormatOptions) => new Intl.NumberFormat(tag, options));
const relatives = kept((tag, options: Intl.RelativeTimeFormatOptions) => new Intl.RelativeTimeFormat(tag, options));
const dates = kept((tag, options: Intl.DateTimeFormatOptions) => new Intl.DateTimeFormat(tag, options));

export function formatNumber(value: number, tag: string, options: Intl.NumberFormatOptions = {}): string {
  return numbers(tag, { maximumFractionDigits: 2, ...options }).format(value);
}

const byteUnits = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function formatBytes(value: number, tag: string): string {
  let unit = 0;
  let left = value;
  while (Math.abs(left) >= 1024 && unit < byteUnits.length - 1) {
    left /= 1024;
    unit++;
  }
  const digits = unit === 0 || left >= 100 ? 0 : left >= 10 ? 1 : 2;
  return `${formatNumber(left, tag, { maximumFractionDigits: digits })} ${byteUnits[unit]}`;
}

const units: [Intl.RelativeTimeFormatUnit, string, number][] = [
  ["day", "day", 86_400],
  ["hour", "hour", 3_600],
  ["minute", "minute", 60],
  ["second", "second", 1],
];

// formatDuration shows the two largest units of a time in seconds, such as "2h 5m".
export function formatDuration(seconds: number, tag: string): string {
  const whole = Math.max(0, Math.floor(seconds));
  const first = units.findIndex(([, , size]) => whole >= size);
  if (first === -1) return part(0, "second", tag);
  const shown: string[] = [];
  let left = whole;
  for (const [, unit, size] of units.slice(first, first + 2)) {
    const count = Math.floor(left / size);
    left -= count * size;
    if (count > 0 || shown.length === 0) shown.push(part(count, unit, tag));
  }
  return shown.join(" ");
}

function part(count: number, unit: string, tag: string): string {
  return numbers(tag, { style: "unit", unit, unitDisplay: "narrow" }).format(count);
}

// formatRelative shows how long ago a time is, in its largest unit.
export function formatRelative(then: number, now: number, tag: string): string {
  const seconds = Math.round((then - now) / 1000);
  const format = relatives(tag, { numeric: "auto", style: "narrow" });
  const size = Math.abs(seconds);
  if (size < 10) return format.format(0, "second");
  if (size >= 365 * 86_400) return format.format(Math.round(seconds / (365 * 86_400)), "year");
  if (size >= 30 * 86_400) return format.format(Math.round(seconds / (30 * 86_400)), "month");
  const [unit, , step] = units.find(([, , s]) => size >= s) ?? ["second", "second", 1];
  return format.format(Math.trunc(seconds / step), unit);
}

export function formatAbsolute(then: number, tag: string, zone: string | undefined): string {
  return dates(tag, { dateStyle: "medium", timeStyle: "long", timeZone: zone }).format(then);
}

// zoneOr returns the zone if the browser knows it, otherwise undefined, which means the browser's own zone.
export function zoneOr(zone: string | null | undefined): string | undefined {
  if (!zone) return undefined;
  try {
    new Intl.DateTimeFormat("en", { timeZone: zone });
    return zone;
  } catch {
    return undefined;
  }
}
