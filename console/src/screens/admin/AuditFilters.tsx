import { RefreshCw } from "lucide-react";
import { useEffect, useState } from "react";
import { useTranslation } from "react-i18next";
import { FilterBar, IconButton, Input, Select } from "@/ui";
import { type AuditSearch, spans } from "./audit";

type Props = { filters: AuditSearch; onChange: (next: Partial<AuditSearch>) => void; onRefresh: () => void };
const all = "all";

export function AuditFilters({ filters, onChange, onRefresh }: Props) {
  const { t } = useTranslation("admin");
  const { actor, action, target_kind, target_id, span } = filters;
  const any = Boolean(actor || action || target_kind || target_id || span);
  const none = { actor: undefined, action: undefined, target_kind: undefined, target_id: undefined, span: undefined };
  return (
    <FilterBar
      query={actor ?? ""}
      onQuery={(text) => onChange({ actor: text || undefined })}
      placeholder={t("actorFilter")}
      onClear={any ? () => onChange(none) : undefined}
      end={<IconButton label={t("refresh")} icon={<RefreshCw size={14} aria-hidden />} onClick={onRefresh} />}
    >
      <Exact label={t("actionFilter")} value={action} onChange={(v) => onChange({ action: v })} width="w-40" />
      <Exact label={t("kindFilter")} value={target_kind} onChange={(v) => onChange({ target_kind: v })} width="w-28" />
      <Exact label={t("targetFilter")} value={target_id} onChange={(v) => onChange({ target_id: v })} width="w-48" />
      <Select
        label={t("spanFilter")}
        value={span ?? all}
        onChange={(next) => onChange({ span: next === all ? undefined : next })}
        options={[
          { value: all, label: t("span.all") },
          ...spans.map((value) => ({ value, label: t(`span.${value}`) })),
        ]}
        className="w-36"
      />
    </FilterBar>
  );
}

type ExactProps = {
  label: string;
  value: string | undefined;
  onChange: (value: string | undefined) => void;
  width: string;
};

// Exact is a filter that must match as a whole, so it applies only when it is complete: with Enter or on leaving it.
function Exact({ label, value, onChange, width }: ExactProps) {
  const [text, setText] = useState(value ?? "");
  useEffect(() => setText(value ?? ""), [value]);
  const apply = () => {
    const next = text.trim() || undefined;
    if (next !== value) onChange(next);
  };
  return (
    <div className={width}>
      <Input
        aria-label={label}
        placeholder={label}
        value={text}
        maxLength={128}
        spellCheck={false}
        onChange={(event) => setText(event.target.value)}
        onBlur={apply}
        onKeyDown={(event) => event.key === "Enter" && apply()}
      />
    </div>
  );
}
