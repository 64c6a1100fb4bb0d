import { memo, useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { cx } from "@/lib/cx";
import { visible } from "@/lib/untrusted";
import { parseAnsi } from "./ansi";
import { highlighter, mark } from "./highlight";
import type { LogLine } from "./store";
import { pieceStyle } from "./style";
import type { LogsView } from "./view";

const longest = 4000;

type Props = {
  seq: number;
  line: LogLine | undefined;
  view: LogsView;
  selected: boolean;
  found: boolean;
  time: (at: string) => string;
  onSelect: (seq: number) => void;
};

export const LogLineRow = memo(function LogLineRow({ seq, line, view, selected, found, time, onSelect }: Props) {
  return (
    <div
      data-line={seq}
      aria-current={selected ? "true" : undefined}
      className={cx(
        "flex min-h-[18px] w-max min-w-full pr-4",
        selected ? "bg-warn-tint" : found ? "bg-tint" : "hover:bg-hover",
        view.wrap && "max-w-full w-full",
      )}
    >
      <a
        href={`#L${seq}`}
        tabIndex={-1}
        onClick={(event) => {
          if (event.metaKey || event.ctrlKey || event.shiftKey) return;
          event.preventDefault();
          onSelect(seq);
        }}
        className={cx(
          "sticky left-0 w-[9ch] shrink-0 bg-inherit pr-[1.5ch] text-right text-soft tabular select-none hover:text-ink",
          !selected && !found && "bg-card",
        )}
      >
        {seq > 0 ? seq : ""}
      </a>
      {line ? <Content line={line} view={view} time={time} /> : <span className="skeleton my-1 h-2.5 w-64" />}
    </div>
  );
});

function Content({ line, view, time }: { line: LogLine; view: LogsView; time: (at: string) => string }) {
  const { t } = useTranslation("logs");
  const [whole, setWhole] = useState(false);
  const pattern = useMemo(() => highlighter(view.find ?? "", view.case === true), [view.find, view.case]);
  const cut = !whole && line.text.length > longest;
  const pieces = useMemo(() => {
    const text = cut ? line.text.slice(0, longest) : line.text;
    return mark(parseAnsi(text), pattern);
  }, [line.text, cut, pattern]);
  return (
    <>
      {view.times ? <span className="shrink-0 pr-[2ch] text-soft tabular">{line.ts ? time(line.ts) : ""}</span> : null}
      {line.rank !== null ? (
        <span
          className="shrink-0 pr-[1.5ch] text-soft tabular"
          title={t(line.node ? "rankOnNode" : "rankOf", { rank: line.rank, node: line.node })}
        >
          {line.rank}
        </span>
      ) : null}
      <span
        dir="ltr"
        className={cx(
          "min-w-0 [tab-size:8] [unicode-bidi:isolate]",
          view.wrap ? "max-h-72 flex-1 overflow-y-auto [overflow-wrap:anywhere] whitespace-pre-wrap" : "whitespace-pre",
        )}
      >
        {pieces.map((piece, at) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: the pieces of a line keep their order
          <Piece key={at} {...piece} />
        ))}
        {cut ? (
          <button type="button" tabIndex={-1} className="pl-2 text-accent underline" onClick={() => setWhole(true)}>
            {t("wholeLine", { count: line.text.length - longest })}
          </button>
        ) : null}
      </span>
    </>
  );
}

function Piece({ text, style, found }: ReturnType<typeof mark>[number]) {
  const shown = visible(text, 100_000).text;
  if (found) return <mark className="rounded-sm bg-accent text-on-accent">{shown}</mark>;
  if (Object.keys(style).length === 0) return shown;
  const { css, classes } = pieceStyle(style);
  return (
    <span style={css} className={classes}>
      {shown}
    </span>
  );
}
