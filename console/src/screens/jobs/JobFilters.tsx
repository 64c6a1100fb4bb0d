import { X } from "lucide-react";
import { type FormEvent, type ReactNode, useCallback, useState } from "react";
import { useTranslation } from "react-i18next";
import { session } from "@/auth/browser";
import { FilterBar, Input, Select, UntrustedText } from "@/ui";
import { filtered, type JobState, type JobsSearch, jobStates } from "./filters";

type Props = { search: JobsSearch; onChange: (change: Partial<JobsSearch>) => void; end: ReactNode };

export function JobFilters({ search, onChange, end }: Props) {
  const { t } = useTranslation("jobs");
  const me = session.user?.username ?? "";
  const { owner } = search;
  const onQuery = useCallback((q: string) => onChange({ q: q || undefined }), [onChange]);
  const owners = [
    { value: "*", label: t("anyOwner") },
    { value: me, label: t("mine") },
    ...(owner && owner !== me ? [{ value: owner, label: owner }] : []),
  ];
  return (
    <FilterBar
      query={search.q ?? ""}
      onQuery={onQuery}
      placeholder={t("filter")}
      onClear={
        filtered(search)
          ? () => onChange({ q: undefined, state: undefined, owner: undefined, label: undefined })
          : undefined
      }
      end={end}
    >
      <Select
        label={t("state")}
        value={search.state ?? "*"}
        onChange={(state) => onChange({ state: state === "*" ? undefined : (state as JobState) })}
        options={[
          { value: "*", label: t("anyState") },
          ...jobStates.map((state) => ({ value: state, label: t(`states.${state}`) })),
        ]}
        className="w-32"
      />
      <Select
        label={t("owner")}
        value={owner ?? "*"}
        onChange={(next) => onChange({ owner: next === "*" ? undefined : next })}
        options={owners}
        className="w-32"
      />
      <Labels
        labels={search.label ?? []}
        onChange={(label) => onChange({ label: label.length > 0 ? label : undefined })}
      />
    </FilterBar>
  );
}

// Labels are the labels that a job must have, each name or name=value.
function Labels({ labels, onChange }: { labels: string[]; onChange: (labels: string[]) => void }) {
  const { t } = useTranslation("jobs");
  const [text, setText] = useState("");
  const add = (event: FormEvent) => {
    event.preventDefault();
    const label = text.trim();
    if (label !== "" && !labels.includes(label)) onChange([...labels, label].slice(0, 16));
    setText("");
  };
  return (
    <>
      {labels.map((label) => (
        <button
          key={label}
          type="button"
          aria-label={t("removeLabel", { label })}
          onClick={() => onChange(labels.filter((l) => l !== label))}
          className="inline-flex h-7 max-w-48 items-center gap-1 rounded-md bg-tint px-2 text-xs text-accent hover:opacity-85"
        >
          <UntrustedText text={label} longest={60} className="truncate" />
          <X size={12} aria-hidden className="shrink-0" />
        </button>
      ))}
      <form onSubmit={add} className="w-28">
        <Input
          aria-label={t("label")}
          placeholder={t("label")}
          value={text}
          maxLength={256}
          onChange={(event) => setText(event.target.value)}
        />
      </form>
    </>
  );
}
