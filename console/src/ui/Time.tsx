import { formatAbsolute, formatDuration, formatRelative } from "@/lib/format";
import { useNow } from "@/lib/now";
import { useFormats } from "@/lib/prefs";

// Time shows how long ago a time of the API is, and the exact time as its title.
export function Time({ at, absolute = false }: { at: string | null | undefined; absolute?: boolean }) {
  const { tag, zone } = useFormats();
  const now = useNow(10_000);
  if (!at) return <Nothing />;
  const then = Date.parse(at);
  const exact = formatAbsolute(then, tag, zone);
  return (
    <time dateTime={at} title={exact} className="tabular whitespace-nowrap">
      {absolute ? exact : formatRelative(then, now, tag)}
    </time>
  );
}

// Duration shows the time between two times of the API, or until now.
export function Duration({ from, to }: { from: string | null | undefined; to?: string | null }) {
  const { tag } = useFormats();
  const now = useNow(1000);
  if (!from) return <Nothing />;
  const end = to ? Date.parse(to) : now;
  return <span className="tabular whitespace-nowrap">{formatDuration((end - Date.parse(from)) / 1000, tag)}</span>;
}

export function Seconds({ value }: { value: number | null | undefined }) {
  const { tag } = useFormats();
  if (value === null || value === undefined) return <Nothing />;
  return <span className="tabular whitespace-nowrap">{formatDuration(value, tag)}</span>;
}

// Nothing stands for a value that does not exist.
export function Nothing() {
  return (
    <span className="text-soft" aria-hidden>
      –
    </span>
  );
}
