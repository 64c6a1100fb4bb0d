import { useTranslation } from "react-i18next";
import { Bytes, Meter, Nothing, Num, Time, UntrustedText } from "@/ui";
import { Fact, FactList, IdText } from "@/ui/FactList";
import { PathLink } from "@/ui/PathLink";
import type { Node } from "./api";

export function NodeFacts({ node }: { node: Node }) {
  const { t } = useTranslation("cluster");
  return (
    <FactList>
      <Fact label={t("gpus")}>
        <span className="w-24">{t("freeOf", { free: node.gpus_free, total: node.gpus })}</span>
        <span className="w-32">
          <Meter value={node.gpus - node.gpus_free} max={node.gpus} label={t("heldMeter")} />
        </span>
      </Fact>
      <Fact label={t("works")}>
        <Num value={node.works} />
      </Fact>
      <Fact label={t("cpus")}>
        <Num value={node.cpus} />
      </Fact>
      <Fact label={t("memory")}>
        <Bytes value={node.memory_bytes} />
      </Fact>
      <Fact label={t("pools")}>
        {node.pools.length > 0 ? <UntrustedText text={node.pools.join(", ")} /> : <Nothing />}
      </Fact>
      <Fact label={t("fleet")}>
        <PathLink href={`/fleets/${node.fleet_id}`} className="font-mono text-xs hover:underline">
          {node.fleet_id}
        </PathLink>
      </Fact>
      <Fact label={t("version")}>
        <span className="font-mono text-xs">{node.version || "–"}</span>
      </Fact>
      <Fact label={t("joined")}>
        <Time at={node.joined_at} />
      </Fact>
      <Fact label={t("seen")}>
        <Time at={node.last_seen_at} />
      </Fact>
      <Fact label={t("id")} wide>
        <IdText id={node.id} />
      </Fact>
      {node.reason ? (
        <Fact label={t("adminReason")} wide>
          <UntrustedText text={node.reason} longest={1024} />
        </Fact>
      ) : null}
      {node.drain ? (
        <Fact label={t("drain")} wide>
          {t(`mode.${node.drain.mode}`)}
          {node.drain.deadline ? (
            <span className="text-soft">
              {t("drainUntil")} <Time at={node.drain.deadline} absolute />
            </span>
          ) : null}
        </Fact>
      ) : null}
    </FactList>
  );
}
