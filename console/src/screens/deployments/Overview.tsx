import { useTranslation } from "react-i18next";
import { Nothing, Num, Time, UntrustedText } from "@/ui";
import { CopyId } from "@/ui/CopyId";
import { Fact, Facts } from "@/ui/Facts";
import { Panel } from "@/ui/Panel";
import { ModelName } from "../models/ModelName";
import { useMetrics } from "./api";
import { type Deployment, type Revision, total } from "./deployment";
import { Snippets } from "./Snippets";
import { absolute } from "./snippets";
import { TryIt } from "./TryIt";

type Props = { deployment: Deployment; revisions: { data?: Revision[] }; token: string | null };

export default function Overview({ deployment, revisions, token }: Props) {
  const { t } = useTranslation("deployments");
  const promoted = revisions.data?.find((r) => r.id === deployment.promoted_revision_id);
  const url = absolute(deployment.url, location.origin);
  return (
    <div className="grid gap-6">
      <Facts>
        <Fact label={t("url")} wide>
          <CopyId id={url} />
        </Fact>
        <Fact label={t("promoted")}>
          {promoted?.source ? (
            <>
              <span className="tabular">{t("revisionNumber", { number: promoted.number })}</span>
              <ModelName id={promoted.source.model_id} version={promoted.source.version} />
            </>
          ) : (
            <Nothing />
          )}
        </Fact>
        <Fact label={t("since")}>
          <Time at={promoted?.promoted_at.at(-1)} />
        </Fact>
        <Fact label={t("created")}>
          <Time at={deployment.created_at} />
        </Fact>
        <Fact label={t("description")}>
          {deployment.description ? <UntrustedText text={deployment.description} longest={4096} /> : <Nothing />}
        </Fact>
      </Facts>
      <LastHour id={deployment.id} />
      {promoted ? (
        <Panel title={t("try.title")}>
          <TryIt key={deployment.id} deployment={deployment.id} url={`${location.origin}${new URL(url).pathname}`} />
        </Panel>
      ) : null}
      <Panel title={t("callIt")}>
        <Snippets url={url} token={token} />
      </Panel>
    </div>
  );
}

function LastHour({ id }: { id: string }) {
  const { t } = useTranslation("deployments");
  const { data } = useMetrics(id, 3600, 60);
  const all = total(data?.points ?? []);
  const figures = [
    { label: t("calls"), value: all.calls },
    { label: t("failedCalls"), value: all.failed },
    { label: t("p95"), value: all.p95, digits: 0, unit: t("ms") },
    { label: t("ttft"), value: all.ttft, digits: 0, unit: t("ms") },
    { label: t("generated"), value: all.completionTokens },
  ];
  return (
    <Panel title={t("lastHour")}>
      <dl className="grid grid-cols-2 divide-line rounded-lg border bg-card sm:grid-cols-5 sm:divide-x">
        {figures.map((figure) => (
          <div key={figure.label} className="px-4 py-2.5">
            <dt className="text-xs text-soft">{figure.label}</dt>
            <dd className="text-lg font-medium">
              {data ? (
                <Num
                  value={figure.value}
                  digits={figure.digits}
                  unit={figure.value === null ? undefined : figure.unit}
                />
              ) : (
                <Nothing />
              )}
            </dd>
          </div>
        ))}
      </dl>
    </Panel>
  );
}
