import { useTranslation } from "react-i18next";
import { Badge, Nothing, UntrustedText } from "@/ui";
import { Fact, FactList } from "@/ui/FactList";
import type { Node } from "./api";

// Boundary shows what separates the works of a node from the machine and from one another.
export function Boundary({ node }: { node: Node }) {
  const { t } = useTranslation("cluster");
  const b = node.boundary;
  if (!b) return <p className="text-sm text-soft">{t("noBoundary")}</p>;
  return (
    <FactList>
      <Fact label={t("isolation")}>
        <Badge tone={b.kind === "none" ? "warn" : "good"}>{t(`boundaries.${b.kind}`, { defaultValue: b.kind })}</Badge>
      </Fact>
      <Fact label={t("boundaryRequired")}>{b.required ? t("yes") : t("no")}</Fact>
      <Fact label={t("users")}>{b.users ? <span className="font-mono text-xs">{b.users}</span> : <Nothing />}</Fact>
      <Fact label={t("namespaces")}>
        {b.namespaces.length > 0 ? <span className="font-mono text-xs">{b.namespaces.join(", ")}</span> : <Nothing />}
      </Fact>
      <Why label={t("problem")} text={b.problem} />
      <Fact label={t("network")}>
        <Badge tone={b.network === "open" ? "warn" : b.network === "unknown" ? "neutral" : "good"}>
          {t(`networks.${b.network}`, { defaultValue: b.network })}
        </Badge>
      </Fact>
      <Fact label={t("closesNetwork")}>{b.closes_network ? t("yes") : t("no")}</Fact>
      <Why label={t("networkProblem")} text={b.network_problem} />
      <Fact label={t("limits")}>
        {node.limits ? t(`limit.${node.limits}`, { defaultValue: node.limits }) : <Nothing />}
      </Fact>
      <Fact label={t("unlimited")}>
        {b.unlimited.length > 0 ? <span className="font-mono text-xs">{b.unlimited.join(", ")}</span> : <Nothing />}
      </Fact>
      {b.unlimited
        .filter((resource) => resource !== "network")
        .map((resource) => (
          <Why key={resource} label={t("unlimitedBecause", { resource })} text={b.reasons[resource]} />
        ))}
    </FactList>
  );
}

// Why shows why something does not hold, in the words of the node's agent.
function Why({ label, text }: { label: string; text?: string | null | undefined }) {
  if (!text) return null;
  return (
    <Fact label={label} wide>
      <UntrustedText text={text} longest={1024} className="font-mono text-xs" />
    </Fact>
  );
}
