import { Check, Copy, Square } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import { copyText } from "@/lib/copy";
import { ErrorNote, IconButton, Num, StateBadge, UntrustedText } from "@/ui";
import { ReasonNote } from "../deployments/ReasonNote";
import { ModelName } from "../models/ModelName";
import { type Target, targetUrl } from "./api";
import { bodyOf, curlOf, type Params } from "./chat";
import type { Column, Turn } from "./use-columns";

type Props = {
  session: string;
  target: Target;
  column: Column | undefined;
  params: Params;
  over: boolean;
  onStop: () => void;
};

export function ChatColumn({ session, target, column, params, over, onStop }: Props) {
  const { t } = useTranslation("playground");
  const [copied, setCopied] = useState(false);
  const turns = column?.turns ?? [];
  const end = useRef<HTMLDivElement>(null);
  const latest = turns.at(-1);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the list follows the newest text
  useEffect(() => {
    const list = end.current?.parentElement;
    // A reader who has scrolled up stays there.
    if (list && list.scrollHeight - list.scrollTop - list.clientHeight < 160) list.scrollTop = list.scrollHeight;
  }, [turns.length, latest?.content]);
  useEffect(() => {
    if (!copied) return;
    const timer = setTimeout(() => setCopied(false), 1500);
    return () => clearTimeout(timer);
  }, [copied]);
  const curl = () => {
    const said = turns.filter((turn) => !turn.error && turn.content !== "");
    const asked = said.slice(0, said.findLastIndex((turn) => turn.role === "user") + 1);
    const messages = asked.length > 0 ? asked.map(({ role, content }) => ({ role, content })) : [hello];
    const url = new URL(targetUrl(session, target.target), location.origin).href;
    void copyText(curlOf(url, bodyOf(messages, params))).then(setCopied);
  };
  const label = t("column", { number: target.target });
  return (
    <section
      aria-label={label}
      className="flex min-h-0 min-w-[min(20rem,100%)] flex-1 snap-start flex-col border-r last:border-r-0"
    >
      <header className="flex h-10 shrink-0 items-center gap-2 border-b bg-card px-4 text-sm">
        <span className="min-w-0 truncate font-medium">
          {target.source ? <ModelName id={target.source.model_id} version={target.source.version} /> : label}
        </span>
        <StateBadge state={target.state} />
        <span className="ml-auto flex">
          {column?.busy ? (
            <IconButton label={t("stopColumn")} icon={<Square size={13} aria-hidden />} onClick={onStop} />
          ) : null}
          <IconButton
            label={copied ? t("copied") : t("copyCurl")}
            icon={copied ? <Check size={14} aria-hidden className="text-accent" /> : <Copy size={14} aria-hidden />}
            onClick={curl}
          />
        </span>
      </header>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard */}
      <div role="log" aria-label={label} tabIndex={0} className="scroll-thin min-h-0 flex-1 overflow-y-auto px-4 py-3">
        {target.reason && !over ? <ReasonNote reason={target.reason} /> : null}
        {turns.length === 0 && target.state === "ready" && !over ? (
          <p className="text-sm text-soft">{t("nothingSaid")}</p>
        ) : null}
        {turns.map((turn, at) => (
          <Said key={turn.key} turn={turn} live={column?.busy === true && at === turns.length - 1} />
        ))}
        <div ref={end} />
      </div>
    </section>
  );
}

const hello = { role: "user" as const, content: "Hello" };

function Said({ turn, live }: { turn: Turn; live: boolean }) {
  const { t } = useTranslation("playground");
  const mine = turn.role === "user";
  const { rate } = turn;
  return (
    <article className="mb-3">
      <h3 className="text-2xs font-medium text-soft">{mine ? t("you") : t("model")}</h3>
      <div className={mine ? "rounded-md bg-hover px-2.5 py-1.5" : ""}>
        <UntrustedText
          text={turn.content}
          longest={400_000}
          className="text-sm leading-6 break-words whitespace-pre-wrap"
        />
        {live ? (
          <span aria-hidden className="ml-0.5 inline-block h-3.5 w-1.5 translate-y-0.5 animate-pulse bg-accent" />
        ) : null}
      </div>
      {turn.error ? <ErrorNote error={turn.error} className="mt-1" /> : null}
      {mine ? null : (
        <p className="mt-0.5 flex min-h-4 flex-wrap gap-x-3 text-2xs text-soft">
          {rate ? (
            <>
              <span title={rate.exact ? t("counted") : t("estimated")}>
                <Num value={rate.tokens} digits={0} unit={t("tokens")} />
              </span>
              {rate.perSecond !== null ? <Num value={rate.perSecond} digits={1} unit={t("perSecond")} /> : null}
              {rate.ttft !== null ? <Num value={rate.ttft} digits={0} unit={t("toFirst")} /> : null}
            </>
          ) : null}
          {turn.finish === "stopped" ? <span>{t("stoppedByYou")}</span> : null}
          {turn.finish === "length" ? <span className="text-warn">{t("cutByLength")}</span> : null}
        </p>
      )}
    </article>
  );
}
