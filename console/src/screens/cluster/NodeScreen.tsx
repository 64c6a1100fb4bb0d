import { useNavigate } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { session } from "@/auth/browser";
import { visible } from "@/lib/untrusted";
import { ErrorPanel, PageBody, PageHeader, SkeletonLines, StateBadge } from "@/ui";
import { Audited } from "./Audited";
import { useNode } from "./api";
import { nodeRoute } from "./area";
import { Boundary } from "./Boundary";
import { NodeActions } from "./NodeActions";
import { NodeFacts } from "./NodeFacts";
import { OnNode } from "./OnNode";

export function NodeScreen() {
  const { id } = nodeRoute.useParams();
  const { t } = useTranslation("cluster");
  const navigate = useNavigate();
  const { data: node, error, refetch } = useNode(id);
  if (!node) {
    if (error) return <ErrorPanel error={error} onRetry={() => void refetch()} />;
    return <SkeletonLines lines={6} className="max-w-2xl p-6" />;
  }
  const admin = session.user?.role === "admin";
  return (
    <>
      <PageHeader
        name={visible(node.name, 128).text}
        lead={<StateBadge state={node.state} />}
        actions={admin ? <NodeActions node={node} onRemoved={() => void navigate({ to: "/cluster" })} /> : null}
      />
      <PageBody>
        <NodeFacts node={node} />
        <OnNode node={node} />
        <section aria-label={t("boundary")} className="grid gap-2">
          <h2 className="text-sm font-semibold">{t("boundary")}</h2>
          <Boundary node={node} />
        </section>
        {admin ? (
          <section aria-label={t("events")} className="grid gap-2">
            <h2 className="text-sm font-semibold">{t("events")}</h2>
            <Audited kind="node" id={node.id} />
          </section>
        ) : null}
      </PageBody>
    </>
  );
}
