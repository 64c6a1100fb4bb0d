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
      <Fact label={t("closesNetwork")}>{b.closes_network ? t("yes") : t("no")}</Fact>
      <Fact label={t("unlimited")}>
        {b.unlimited.length > 0 ? <span className="font-mono text-xs">{b.unlimited.join(", ")}</span> : <Nothing />}
      </Fact>
      {b.problem ? (
        <Fact label={t("problem")} wide>
          <UntrustedText text={b.problem} longest={1024} className="font-mono text-xs" />
        </Fact>
      ) : null}
      {b.network_problem ? (
        <Fact label={t("networkProblem")} wide>
          <UntrustedText text={b.network_problem} longest={1024} className="font-mono text-xs" />
        </Fact>
      ) : null}
    </FactList>
  );
}
