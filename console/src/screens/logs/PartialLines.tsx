import { LogLineRow } from "./LogLineRow";
import { useTime } from "./LogView";
import type { LogLine } from "./store";
import type { LogsView } from "./view";

const nothing = () => undefined;

// PartialLines shows the lines that are not finished yet, such as a progress bar, below the others.
export function PartialLines({ lines, view }: { lines: readonly LogLine[]; view: LogsView }) {
  const time = useTime();
  if (lines.length === 0) return null;
  return (
    <div className="max-h-36 overflow-auto border-t border-dashed bg-card font-mono text-xs leading-[18px]">
      {lines.map((line, at) => (
        <LogLineRow
          // biome-ignore lint/suspicious/noArrayIndexKey: an unfinished line has no number
          key={at}
          seq={0}
          line={line}
          view={view}
          time={time}
          selected={false}
          found={false}
          onSelect={nothing}
        />
      ))}
    </div>
  );
}
