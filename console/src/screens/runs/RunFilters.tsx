import { type ReactNode, useCallback } from "react";
import { useTranslation } from "react-i18next";
import { session } from "@/auth/browser";
import { Field, FilterBar, Select } from "@/ui";
import { MorePopover } from "@/ui/MorePopover";
import { archivedChoices, countMore, filtered, noFilters, noMore, type RunsSearch, runStates, sorts } from "./filters";
import { WordFilter } from "./WordFilter";

type Props = { search: RunsSearch; onChange: (change: Partial<RunsSearch>) => void; end: ReactNode };

// RunFilters has the filters of the list in one row; those that are used less often open beside it.
export function RunFilters({ search, onChange, end }: Props) {
  const { t } = useTranslation("runs");
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
      onClear={filtered(search) ? () => onChange(noFilters) : undefined}
      end={
        <>
          <Select
            label={t("sort")}
            value={search.sort ?? "created_at"}
            onChange={(sort) => onChange({ sort: sort === "created_at" ? undefined : sort })}
            options={sorts.map((value) => ({ value, label: t(`sorts.${value}`) }))}
            className="w-36"
          />
          {end}
        </>
      }
    >
      <Select
        label={t("state")}
        value={search.state ?? "all"}
        onChange={(state) => onChange({ state: state === "all" ? undefined : state })}
        options={runStates.map((value) => ({
          value,
          label: value === "all" ? t("anyState") : value === "finished" ? t("finished") : t(`states.${value}`),
        }))}
        className="w-28"
      />
      <Select
        label={t("owner")}
        value={owner ?? "*"}
        onChange={(next) => onChange({ owner: next === "*" ? undefined : next })}
        options={owners}
        className="w-28"
      />
      <MorePopover name={t("moreFilters")} count={countMore(search)} onClear={() => onChange(noMore)}>
        <Field label={t("archive")}>
          {(control) => (
            <Select
              {...control}
              value={search.archived ?? "false"}
              onChange={(archived) => onChange({ archived: archived === "false" ? undefined : archived })}
              options={archivedChoices.map((value) => ({ value, label: t(`archives.${value}`) }))}
            />
          )}
        </Field>
        <WordFilter
          name={t("tag")}
          words={search.tag ?? []}
          onChange={(tag) => onChange({ tag: tag.length > 0 ? tag : undefined })}
        />
        <WordFilter
          name={t("label")}
          words={search.label ?? []}
          onChange={(label) => onChange({ label: label.length > 0 ? label : undefined })}
        />
        <WordFilter
          name={t("recipe")}
          words={search.recipe ? [search.recipe] : []}
          onChange={(words) => onChange({ recipe: words.at(-1) })}
        />
      </MorePopover>
    </FilterBar>
  );
}
