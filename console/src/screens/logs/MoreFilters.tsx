import { useEffect, useState } from "react";
import { useTranslation } from "react-i18next";
import { Input, Select } from "@/ui";
import { type LogsView, levels } from "./view";

type Props = { view: LogsView; change: (change: Partial<LogsView>) => void };

// MoreFilters are the filters by node, by level and by the time of arrival.
export function MoreFilters({ view, change }: Props) {
  const { t } = useTranslation("logs");
  return (
    <>
      <TextFilter label={t("node")} value={view.node} onChange={(node) => change({ node })} />
      <Select
        size="sm"
        label={t("level")}
        value={view.level ?? "all"}
        onChange={(level) => change({ level: level === "all" ? undefined : level })}
        options={[
          { value: "all", label: t("levels.all") },
          ...levels.map((level) => ({ value: level, label: t(`levels.${level}`) })),
        ]}
        className="w-32"
      />
      <TimeFilter label={t("since")} value={view.since} onChange={(since) => change({ since })} />
      <TimeFilter label={t("until")} value={view.until} onChange={(until) => change({ until })} />
    </>
  );
}

type TextProps = { label: string; value: string | undefined; onChange: (value: string | undefined) => void };

// TextFilter applies when Enter is pressed or the focus leaves it.
function TextFilter({ label, value, onChange }: TextProps) {
  const [text, setText] = useState(value ?? "");
  useEffect(() => setText(value ?? ""), [value]);
  const apply = () => onChange(text.trim() || undefined);
  return (
    <Input
      aria-label={label}
      placeholder={label}
      value={text}
      maxLength={255}
      className="h-7! w-24! text-xs!"
      onChange={(event) => setText(event.target.value)}
      onBlur={apply}
      onKeyDown={(event) => event.key === "Enter" && apply()}
    />
  );
}

type TimeProps = { label: string; value: string | undefined; onChange: (value: string | undefined) => void };

// TimeFilter is a time in UTC. It applies when it is complete.
function TimeFilter({ label, value, onChange }: TimeProps) {
  const [text, setText] = useState(value ?? "");
  useEffect(() => setText(value ?? ""), [value]);
  return (
    <div className="hidden items-center gap-1 text-xs text-soft lg:flex">
      <span aria-hidden>{label}</span>
      <Input
        aria-label={label}
        type="datetime-local"
        step={1}
        value={text}
        className="h-7! w-44! text-xs! tabular"
        onChange={(event) => {
          setText(event.target.value);
          onChange(event.target.value || undefined);
        }}
      />
    </div>
  );
}
