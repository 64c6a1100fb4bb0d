import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, call, type Schemas } from "@/api/client";
import {
  Badge,
  Button,
  ConfirmDialog,
  ErrorPanel,
  Field,
  Input,
  PageBody,
  PageHeader,
  SkeletonLines,
  Textarea,
  Time,
  UntrustedText,
} from "@/ui";
import { Fact, FactList } from "@/ui/FactList";

const key = ["admin", "maintenance"];

export function MaintenanceScreen() {
  const { t } = useTranslation("admin");
  const query = useQuery({
    queryKey: key,
    queryFn: ({ signal }) => call(api.GET("/api/admin/maintenance", { signal })),
    refetchInterval: 10_000,
  });
  const on = query.data?.mode === "maintenance";
  return (
    <>
      <PageHeader
        name={t("maintenance")}
        lead={query.data ? <Badge tone={on ? "warn" : "good"}>{on ? t("modeOn") : t("modeOff")}</Badge> : null}
      />
      {query.data ? (
        <PageBody>
          <Mode state={query.data} />
        </PageBody>
      ) : query.error ? (
        <ErrorPanel error={query.error} onRetry={() => void query.refetch()} />
      ) : (
        <SkeletonLines lines={4} className="max-w-xl px-6" />
      )}
    </>
  );
}

function Mode({ state }: { state: Schemas["Maintenance"] }) {
  const { t } = useTranslation("admin");
  const queries = useQueryClient();
  const [message, setMessage] = useState("");
  const [minutes, setMinutes] = useState("");
  const [asking, setAsking] = useState(false);
  const on = state.mode === "maintenance";
  const set = async () => {
    const until = minutes === "" ? null : new Date(Date.now() + Number(minutes) * 60_000).toISOString();
    const body = on
      ? ({ mode: "off" } as const)
      : { mode: "maintenance" as const, message: message.trim() || null, until };
    queries.setQueryData(key, await call(api.POST("/api/admin/maintenance", { body })));
    await queries.invalidateQueries({ queryKey: ["installation"] });
  };
  return (
    <div className="grid max-w-xl gap-4">
      <p className="text-sm text-soft">{t("maintenanceWhy")}</p>
      {state.changed_at ? (
        <FactList>
          <Fact label={t("changed")}>
            <Time at={state.changed_at} />
          </Fact>
          <Fact label={t("changedBy")}>
            <UntrustedText text={state.changed_by ?? ""} longest={128} />
          </Fact>
          {on ? (
            <Fact label={t("message")} wide>
              <UntrustedText text={state.message ?? ""} longest={1000} />
            </Fact>
          ) : null}
          {state.until ? (
            <Fact label={t("until")} wide>
              <Time at={state.until} absolute />
            </Fact>
          ) : null}
        </FactList>
      ) : null}
      {on ? null : (
        <>
          <Field label={t("message")} hint={t("messageHint")}>
            {(control) => (
              <Textarea {...control} maxLength={500} value={message} onChange={(e) => setMessage(e.target.value)} />
            )}
          </Field>
          <Field label={t("minutes")} hint={t("minutesHint")}>
            {(control) => (
              <Input
                {...control}
                type="number"
                min={1}
                max={10_080}
                value={minutes}
                onChange={(e) => setMinutes(e.target.value)}
                className="w-32"
              />
            )}
          </Field>
        </>
      )}
      <div>
        <Button variant="primary" onClick={() => setAsking(true)}>
          {on ? t("turnOff") : t("turnOn")}
        </Button>
      </div>
      <ConfirmDialog
        open={asking}
        onOpenChange={setAsking}
        title={on ? t("turnOffTitle") : t("turnOnTitle")}
        description={on ? t("turnOffWhy") : t("turnOnWhy")}
        action={on ? t("turnOff") : t("turnOn")}
        danger={!on}
        onConfirm={set}
      />
    </div>
  );
}
