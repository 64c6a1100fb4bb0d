import { useTranslation } from "react-i18next";
import { Field, Select } from "@/ui";
import { usePools, useProfiles } from "./api";
import { NumberField } from "./fields";
import { type Form, problemAt, readAt, textOf } from "./form";

const first = ["resources", "pools", 0] as const;
const none = "*";

// Resources is the first request for nodes. Requests for more pools are written in YAML.
export function Resources({ form }: { form: Form }) {
  const { t } = useTranslation("submit");
  const requests = readAt(form, ["resources", "pools"]);
  const others = Array.isArray(requests) ? requests.length - 1 : 0;
  return (
    <>
      <div className="grid items-start gap-3 sm:grid-cols-2">
        <PoolField form={form} />
        <ProfileField form={form} />
      </div>
      <div className="grid grid-cols-2 items-start gap-3 sm:grid-cols-4">
        <NumberField
          form={form}
          path={[...first, "nodes"]}
          label={t("field.nodes")}
          placeholder="1"
          min={1}
          max={4096}
        />
        <NumberField
          form={form}
          path={[...first, "gpus_per_node"]}
          label={t("field.gpus")}
          placeholder="0"
          min={0}
          max={64}
        />
        <NumberField form={form} path={[...first, "cpu"]} label={t("field.cpu")} placeholder="0" min={0} max={4096} />
        <NumberField
          form={form}
          path={[...first, "memory_gb"]}
          label={t("field.memory")}
          placeholder="0"
          min={0}
          max={65536}
        />
      </div>
      {others > 0 ? <p className="text-sm text-soft">{t("otherPools", { count: others })}</p> : null}
    </>
  );
}

function PoolField({ form }: { form: Form }) {
  const { t } = useTranslation("submit");
  const { data } = usePools();
  const value = textOf(form, [...first, "pool"]) || "default";
  const pools = data?.pools ?? [];
  const known = pools.find((p) => p.pool === value);
  const names = known ? pools.map((p) => p.pool) : [value, ...pools.map((p) => p.pool)];
  const hint = known
    ? t("poolHint", {
        ready: known.nodes_ready,
        free: known.gpus_free,
        total: known.gpus_total,
        queued: known.jobs_queued,
      })
    : undefined;
  return (
    <Field label={t("field.pool")} hint={hint} error={problemAt(form, [...first, "pool"])}>
      {(control) => (
        <Select
          {...control}
          value={value}
          onChange={(next) => form.set([...first, "pool"], next)}
          options={names.map((name) => ({ value: name, label: name }))}
        />
      )}
    </Field>
  );
}

function ProfileField({ form }: { form: Form }) {
  const { t } = useTranslation("submit");
  const { data } = useProfiles();
  const pool = textOf(form, [...first, "pool"]);
  const value = textOf(form, [...first, "profile"]);
  const fit = (data?.profiles ?? []).filter((p) => p.pools.length === 0 || p.pools.includes(pool)).map((p) => p.key);
  const keys = value === "" || fit.includes(value) ? fit : [value, ...fit];
  return (
    <Field label={t("field.profile")} hint={t("hint.profile")} error={problemAt(form, [...first, "profile"])}>
      {(control) => (
        <Select
          {...control}
          value={value || none}
          onChange={(next) => form.set([...first, "profile"], next === none ? undefined : next)}
          options={[{ value: none, label: t("noProfile") }, ...keys.map((key) => ({ value: key, label: key }))]}
        />
      )}
    </Field>
  );
}
