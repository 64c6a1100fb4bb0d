import { X } from "lucide-react";
import { useTranslation } from "react-i18next";
import { Button, ErrorPanel, LoadMore, Select, SkeletonLines } from "@/ui";
import { useTokens, useTraffic } from "./api";
import { CallRow } from "./CallRow";
import type { Change } from "./DeploymentScreen";
import type { Deployment, Revision } from "./deployment";
import { Figures } from "./Figures";
import { type DeploymentSearch, outcomes, type Range, ranges } from "./search";

type Props = {
  deployment: Deployment;
  revisions: { data?: Revision[] };
  search: DeploymentSearch;
  onChange: Change;
};

const classes = ["2xx", "4xx", "5xx"];
const latencies = [100, 1000, 10_000];
const any = "*";

export default function Traffic({ deployment, revisions, search, onChange }: Props) {
  const { t } = useTranslation("deployments");
  const calls = useTraffic(deployment.id, search);
  const tokens = useTokens(deployment.id);
  const range: Range = search.range ?? "1h";
  const pick = (value: string) => (value === any ? undefined : value);
  const filtered = Boolean(search.outcome || search.status || search.token || search.served || search.slow);
  const statuses = search.status && !classes.includes(search.status) ? [...classes, search.status] : classes;
  const slow = search.slow && !latencies.includes(search.slow) ? [...latencies, search.slow] : latencies;
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] gap-4">
      <div className="flex flex-wrap items-center gap-2">
        <Select<Range>
          label={t("range")}
          value={range}
          onChange={(next) => onChange({ range: next === "1h" ? undefined : next })}
          options={ranges.map((value) => ({ value, label: t(`ranges.${value}`) }))}
          className="w-36"
        />
        <Select
          label={t("revision")}
          value={search.served ? String(search.served) : any}
          onChange={(value) => onChange({ served: value === any ? undefined : Number(value) })}
          options={[
            { value: any, label: t("anyRevision") },
            ...(revisions.data ?? []).map((r) => ({
              value: String(r.number),
              label: t("revisionNumber", { number: r.number }),
            })),
          ]}
          className="w-36"
        />
        <Select
          label={t("token")}
          value={search.token ?? any}
          onChange={(value) => onChange({ token: pick(value) })}
          options={[
            { value: any, label: t("anyToken") },
            ...(tokens.data ?? []).map((token) => ({ value: token.id, label: `${token.name} (${token.prefix}…)` })),
          ]}
          className="w-40"
        />
        <Select
          label={t("outcome")}
          value={search.outcome ?? any}
          onChange={(value) => onChange({ outcome: outcomes.find((o) => o === value) })}
          options={[
            { value: any, label: t("anyOutcome") },
            ...outcomes.map((value) => ({ value, label: t(`outcomes.${value}`) })),
          ]}
          className="w-40"
        />
        <Select
          label={t("status")}
          value={search.status ?? any}
          onChange={(value) => onChange({ status: pick(value) })}
          options={[{ value: any, label: t("anyStatus") }, ...statuses.map((value) => ({ value, label: value }))]}
          className="w-32"
        />
        <Select
          label={t("slow")}
          value={search.slow ? String(search.slow) : any}
          onChange={(value) => onChange({ slow: value === any ? undefined : Number(value) })}
          options={[
            { value: any, label: t("anyDuration") },
            ...slow.map((ms) => ({ value: String(ms), label: t("atLeast", { ms }) })),
          ]}
          className="w-36"
        />
        {filtered ? (
          <Button
            variant="quiet"
            icon={<X size={13} aria-hidden />}
            onClick={() =>
              onChange({ outcome: undefined, status: undefined, token: undefined, served: undefined, slow: undefined })
            }
          >
            {t("clearFilters")}
          </Button>
        ) : null}
      </div>
      <Figures id={deployment.id} range={range} token={search.token} revision={search.served} />
      {calls.error && calls.rows.length === 0 ? (
        <ErrorPanel error={calls.error} onRetry={calls.refetch} />
      ) : calls.pending ? (
        <SkeletonLines lines={6} />
      ) : calls.rows.length === 0 ? (
        <p className="py-6 text-sm text-soft">{filtered ? t("noCallMatches") : t("noCalls")}</p>
      ) : (
        <div className="scroll-thin relative overflow-x-auto rounded-lg border bg-card">
          <table className="w-full text-left text-sm">
            <thead className="border-b bg-sunken text-xs text-soft">
              <tr>
                {(["time", "status", "outcome", "path", "revision", "token"] as const).map((name) => (
                  <th key={name} className="px-3 py-1.5 font-medium whitespace-nowrap">
                    {t(name)}
                  </th>
                ))}
                {(["firstByte", "duration", "tokensInOut"] as const).map((name) => (
                  <th key={name} className="px-3 py-1.5 text-right font-medium whitespace-nowrap">
                    {t(name)}
                  </th>
                ))}
                <th className="w-10 px-3">
                  <span className="sr-only">{t("more")}</span>
                </th>
              </tr>
            </thead>
            <tbody className="divide-y divide-line/60">
              {calls.rows.map((row) => (
                <CallRow key={row.request_id} row={row} />
              ))}
            </tbody>
          </table>
          <LoadMore more={calls.more} busy={calls.loadingMore} onMore={calls.loadMore} />
        </div>
      )}
    </div>
  );
}
