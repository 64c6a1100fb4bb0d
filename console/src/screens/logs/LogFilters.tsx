import { useEffect, useState } from "react";
import { useTranslation } from "react-i18next";
import { Field, Input, Select } from "@/ui";
import { MorePopover } from "@/ui/MorePopover";
import { NumberFilter } from "./NumberFilter";
import { arounds, countFilters, type LogsView, levels, noFilters } from "./view";

type Props = { view: LogsView; change: (change: Partial<LogsView>) => void };

// LogFilters are the filters by level, by place and by the time of arrival, and how much is shown around a match.
export function LogFilters({ view, change }: Props) {
  const { t } = useTranslation("logs");
  return (
    <MorePopover
      size="sm"
      name={t("filters")}
      count={countFilters(view)}
      onClear={() => change({ ...noFilters, around: undefined })}
    >
      <Field label={t("level")}>
        {(control) => (
          <Select
            {...control}
            value={view.level ?? "all"}
            onChange={(level) => change({ level: level === "all" ? undefined : level })}
            options={[
              { value: "all", label: t("levels.all") },
              ...levels.map((level) => ({ value: level, label: t(`levels.${level}`) })),
            ]}
          />
        )}
      </Field>
      <div className="grid grid-cols-2 gap-3">
        <NumberFilter label={t("rank")} min={0} value={view.rank} onChange={(rank) => change({ rank })} />
        <NumberFilter label={t("attempt")} min={1} value={view.attempt} onChange={(attempt) => change({ attempt })} />
      </div>
      <TextFilter label={t("node")} value={view.node} onChange={(node) => change({ node })} />
      <TimeFilter label={t("since")} value={view.since} onChange={(since) => change({ since })} />
      <TimeFilter label={t("until")} value={view.until} onChange={(until) => change({ until })} />
      <Around view={view} change={change} />
    </MorePopover>
  );
}

// Around shows the lines around each match, which it can only if nothing but the matches is shown.
function Around({ view, change }: Props) {
  const { t } = useTranslation("logs");
  return (
    <Field label={t("around.label")} hint={view.find ? undefined : t("around.hint")}>
      {(control) => (
        <Select
          {...control}
          disabled={!view.find}
          value={(view.only && view.around) || "none"}
          onChange={(around) => change(around === "none" ? { around: undefined } : { around, only: true })}
          options={[
            { value: "none", label: t("around.none") },
            ...arounds.map((count) => ({ value: count, label: t("around.lines", { count: Number(count) }) })),
          ]}
        />
      )}
    </Field>
  );
}

type TextProps = { label: string; value: string | undefined; onChange: (value: string | undefined) => void };

// TextFilter applies when Enter is pressed or the focus leaves it.
function TextFilter({ label, value, onChange }: TextProps) {
  const [text, setText] = useState(value ?? "");
  useEffect(() => setText(value ?? ""), [value]);
  const apply = () => onChange(text.trim() || undefined);
  return (
    <Field label={label}>
      {(control) => (
        <Input
          {...control}
          value={text}
          maxLength={255}
          onChange={(event) => setText(event.target.value)}
          onBlur={apply}
          onKeyDown={(event) => event.key === "Enter" && apply()}
        />
      )}
    </Field>
  );
}

// TimeFilter is a time in UTC. It applies when it is complete.
function TimeFilter({ label, value, onChange }: TextProps) {
  const [text, setText] = useState(value ?? "");
  useEffect(() => setText(value ?? ""), [value]);
  return (
    <Field label={label}>
      {(control) => (
        <Input
          {...control}
          type="datetime-local"
          step={1}
          value={text}
          className="tabular"
          onChange={(event) => {
            setText(event.target.value);
            onChange(event.target.value || undefined);
          }}
        />
      )}
    </Field>
  );
}
