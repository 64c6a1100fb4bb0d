import { ChevronDown, ChevronUp, Search } from "lucide-react";
import { type KeyboardEvent, type ReactNode, type RefObject, useEffect, useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import { cx } from "@/lib/cx";
import { formatNumber } from "@/lib/format";
import { useFormats } from "@/lib/prefs";
import { IconButton, Input, Spinner } from "@/ui";
import type { Matches } from "./use-matches";

const pause = 300;

type Props = {
  ref: RefObject<HTMLInputElement | null>;
  pattern: string;
  onPattern: (pattern: string) => void;
  matches: Matches;
  onLeave: () => void;
  // How the search is done.
  children: ReactNode;
};

// SearchBox searches the whole log on the server. Enter shows the next match, Shift-Enter the previous one.
export function SearchBox({ ref, pattern, onPattern, matches, onLeave, children }: Props) {
  const { t } = useTranslation("logs");
  const [text, setText] = useState(pattern);
  const sent = useRef(pattern);
  useEffect(() => {
    if (pattern !== sent.current) setText(pattern);
    sent.current = pattern;
  }, [pattern]);
  useEffect(() => {
    if (text === sent.current) return;
    const timer = setTimeout(() => {
      sent.current = text;
      onPattern(text);
    }, pause);
    return () => clearTimeout(timer);
  }, [text, onPattern]);
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.nativeEvent.isComposing) return;
    if (event.key === "Enter") {
      event.preventDefault();
      if (text === sent.current) matches.go(event.shiftKey ? -1 : 1);
      else {
        sent.current = text;
        onPattern(text);
      }
    }
    if (event.key === "Escape") {
      if (text === "") onLeave();
      setText("");
    }
  };
  return (
    <div role="search" className="flex w-full items-center gap-1 sm:w-auto">
      <div className="relative min-w-0 flex-1 sm:w-72">
        <Search size={13} aria-hidden className="absolute top-1/2 left-2.5 -translate-y-1/2 text-soft" />
        <Input
          ref={ref}
          data-filter
          type="text"
          aria-label={t("find")}
          placeholder={t("findShort")}
          value={text}
          maxLength={1000}
          spellCheck={false}
          autoCapitalize="off"
          autoCorrect="off"
          onChange={(event) => setText(event.target.value)}
          onKeyDown={onKeyDown}
          className={cx("h-7! pl-8 text-xs!", text !== "" && "pr-24 font-mono")}
        />
        <MatchCount matches={matches} />
      </div>
      <IconButton
        label={t("previous")}
        keys="N"
        icon={<ChevronUp size={14} aria-hidden />}
        disabled={matches.count === 0}
        onClick={() => matches.go(-1)}
      />
      <IconButton
        label={t("next")}
        keys="n"
        icon={<ChevronDown size={14} aria-hidden />}
        disabled={matches.count === 0}
        onClick={() => matches.go(1)}
      />
      {children}
    </div>
  );
}

function MatchCount({ matches }: { matches: Matches }) {
  const { t } = useTranslation("logs");
  const { tag } = useFormats();
  if (!matches.active) return null;
  const of = { at: formatNumber(matches.at, tag), count: matches.count, shown: formatNumber(matches.count, tag) };
  const text = matches.complete ? t(matches.count === 0 ? "noMatch" : "matchOf", of) : t("matchOfMore", of);
  return (
    <span
      role="status"
      className="pointer-events-none absolute top-1/2 right-2 flex -translate-y-1/2 items-center gap-1.5 bg-card pl-1 text-2xs text-soft tabular"
    >
      {matches.searching ? <Spinner size={10} /> : null}
      {matches.error ? null : text}
    </span>
  );
}
