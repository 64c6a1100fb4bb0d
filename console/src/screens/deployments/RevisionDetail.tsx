import { useState } from "react";
import { useTranslation } from "react-i18next";
import { errorMessage } from "@/api/message";
import { Button, Nothing, Time, toast, UntrustedText } from "@/ui";
import { CopyId } from "@/ui/CopyId";
import { Fact, Facts } from "@/ui/Facts";
import { startRevision, stopRevision, useChanged } from "./api";
import { ConfigDiff } from "./ConfigDiff";
import type { Deployment, Revision } from "./deployment";
import { Probes } from "./Probes";
import { ReasonNote } from "./ReasonNote";

type Props = { revision: Revision; promoted: Revision | undefined; deployment: Deployment };

export function RevisionDetail({ revision, promoted, deployment }: Props) {
  const { t } = useTranslation("deployments");
  const { serving } = revision;
  return (
    <div className="grid gap-3 border-t border-line/60 bg-paper px-4 py-3">
      {revision.reason ? <ReasonNote reason={revision.reason} /> : null}
      <Facts>
        <Fact label={t("id")}>
          <CopyId id={revision.id} />
        </Fact>
        <Fact label={t("digest")}>
          <CopyId id={revision.serving_digest} short={20} />
        </Fact>
        <Fact label={t("engine")}>{serving?.engine ?? <Nothing />}</Fact>
        <Fact label={t("poolGpus")}>
          <UntrustedText text={serving?.pool ?? ""} longest={64} /> ·{" "}
          <span className="tabular">{serving?.gpus ?? 0}</span>
        </Fact>
        <Fact label={t("readyAt")}>
          <Time at={revision.ready_at} />
        </Fact>
        <Fact label={t("promotions")}>
          {revision.promoted_at.length === 0 ? <Nothing /> : <Time at={revision.promoted_at.at(-1)} />}
        </Fact>
        {revision.replicas.map((replica) => (
          <Fact key={replica.id} label={t("node")}>
            <CopyId id={replica.node_id} />
          </Fact>
        ))}
        {serving && serving.args.length > 0 ? (
          <Fact label={t("options")} wide>
            <code className="font-mono text-xs break-all">
              <UntrustedText text={serving.args.join(" ")} longest={4000} />
            </code>
          </Fact>
        ) : null}
      </Facts>
      {promoted && promoted.id !== revision.id ? <ConfigDiff before={promoted} after={revision} /> : null}
      <Probes report={revision.probe_report} />
      <StartStop revision={revision} serves={promoted?.id === revision.id && deployment.state === "serving"} />
    </div>
  );
}

function StartStop({ revision, serves }: { revision: Revision; serves: boolean }) {
  const { t } = useTranslation("deployments");
  const changed = useChanged();
  const [busy, setBusy] = useState(false);
  const idle = revision.state === "stopped" || revision.state === "failed";
  if (serves && !idle) return null;
  const act = async () => {
    setBusy(true);
    try {
      await (idle ? startRevision : stopRevision)(revision.deployment_id, revision.number);
    } catch (error) {
      toast.error(errorMessage(t, error));
    }
    await changed();
    setBusy(false);
  };
  return (
    <div>
      <Button size="sm" busy={busy} onClick={() => void act()}>
        {idle ? t("start") : t("stop")}
      </Button>
    </div>
  );
}
