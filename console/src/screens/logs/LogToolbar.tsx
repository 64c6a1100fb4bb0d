import { ArrowDownToLine, CaseSensitive, Clock, ListFilter, WrapText } from "lucide-react";
import type { RefObject } from "react";
import { useTranslation } from "react-i18next";
import { cx } from "@/lib/cx";
import { IconButton } from "@/ui";
import { DownloadLog } from "./DownloadLog";
import { LineChip } from "./LineChip";
import { LogFilters } from "./LogFilters";
import { SearchBox } from "./SearchBox";
import type { Matches } from "./use-matches";
import type { LogsView } from "./view";

type Props = {
  runId: string;
  view: LogsView;
  change: (change: Partial<LogsView>) => void;
  matches: Matches;
  search: RefObject<HTMLInputElement | null>;
  ended: boolean;
  following: boolean;
  onFollow: (on: boolean) => void;
  selected: number | null;
  onUnselect: () => void;
  onFocusLog: () => void;
};

// LogToolbar has the search and what of the log is shown: one row, or two on a phone.
export function LogToolbar({ view, change, matches, ...props }: Props) {
  const { t } = useTranslation("logs");
  const flag = (name: "case" | "only" | "times" | "wrap") => ({
    on: view[name] === true,
    onClick: () => change({ [name]: view[name] ? undefined : true }),
  });
  return (
    <div role="toolbar" aria-label={t("toolbar")} className="flex flex-wrap items-center gap-1 px-4 pb-2 md:px-6">
      <SearchBox
        ref={props.search}
        pattern={view.find ?? ""}
        onPattern={(find) => change({ find: find || undefined })}
        matches={matches}
        onLeave={props.onFocusLog}
      >
        <Toggle label={t("caseMatters")} icon={<CaseSensitive size={16} aria-hidden />} {...flag("case")} />
        <Toggle label={t("onlyMatches")} icon={<ListFilter size={14} aria-hidden />} {...flag("only")} />
      </SearchBox>
      <LogFilters view={view} change={change} />
      <div className="ml-auto flex items-center gap-1">
        {props.selected !== null ? <LineChip seq={props.selected} onClose={props.onUnselect} /> : null}
        <Toggle label={t("times")} keys="t" icon={<Clock size={14} aria-hidden />} {...flag("times")} />
        <Toggle label={t("wrap")} keys="w" icon={<WrapText size={14} aria-hidden />} {...flag("wrap")} />
        <Toggle
          label={props.ended ? t("end") : t("follow")}
          keys="f"
          icon={<ArrowDownToLine size={14} aria-hidden />}
          on={props.following}
          onClick={() => props.onFollow(!props.following)}
        />
        <DownloadLog runId={props.runId} view={view} />
      </div>
    </div>
  );
}

type ToggleProps = { label: string; icon: React.ReactNode; on: boolean; onClick: () => void; keys?: string };

function Toggle({ label, icon, on, onClick, keys }: ToggleProps) {
  return (
    <IconButton
      label={label}
      icon={icon}
      keys={keys}
      aria-pressed={on}
      onClick={onClick}
      className={cx(on && "bg-tint text-accent")}
    />
  );
}
