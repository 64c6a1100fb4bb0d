import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { read } from "@/api/read";
import { visible } from "@/lib/untrusted";
import { parseAnsi } from "@/screens/logs/ansi";
import type { LogLine } from "@/screens/logs/store";
import { pieceStyle } from "@/screens/logs/style";
import { ErrorNote, SkeletonLines } from "@/ui";

type Props = {
  runId: string;
  live: boolean;
  to: "/jobs/$id/{-$tab}" | "/runs/$id/{-$tab}";
  page: string;
  lines?: number;
};

const longest = 400;

// LogTail is the end of a run's log. Each line leads to its place in the whole log.
export default function LogTail({ runId, live, to, page, lines = 12 }: Props) {
  const { t } = useTranslation("job");
  const { data, error } = useQuery({
    queryKey: ["run", runId, "log-tail", lines],
    queryFn: ({ signal }) =>
      read<LogLine[]>(`/api/runs/${encodeURIComponent(runId)}/logs`, { tail: true, limit: lines }, signal),
    refetchInterval: live ? 3000 : false,
  });
  if (error && !data) return <ErrorNote error={error} />;
  if (!data) return <SkeletonLines lines={4} />;
  if (data.length === 0) return <p className="text-soft">{t(live ? "logTail.noneYet" : "logTail.noneEver")}</p>;
  return (
    <ol className="overflow-hidden rounded-lg border bg-card py-1 font-mono text-xs leading-[18px]">
      {data.map((line) => (
        <li key={line.seq}>
          <Link
            to={to}
            params={{ id: page, tab: "logs" }}
            hash={`L${line.seq}`}
            className="flex min-h-[18px] hover:bg-hover"
          >
            <span className="w-[9ch] shrink-0 pr-[1.5ch] text-right text-soft tabular">{line.seq}</span>
            <span dir="ltr" className="min-w-0 truncate pr-3 [unicode-bidi:isolate]">
              <Text text={line.text.slice(0, longest)} />
            </span>
          </Link>
        </li>
      ))}
    </ol>
  );
}

function Text({ text }: { text: string }) {
  return parseAnsi(text).map(({ text: piece, style }, at) => {
    const { css, classes } = pieceStyle(style);
    return (
      // biome-ignore lint/suspicious/noArrayIndexKey: the pieces of a line keep their order
      <span key={at} style={css} className={classes}>
        {visible(piece, longest).text}
      </span>
    );
  });
}
