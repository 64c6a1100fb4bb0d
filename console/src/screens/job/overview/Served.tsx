import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { useDeployment } from "@/screens/deployments/api";
import { absolute } from "@/screens/deployments/snippets";
import { TryIt } from "@/screens/deployments/TryIt";
import { type LineageNode, useLineage } from "@/screens/lineage/api";
import { UntrustedText } from "@/ui";
import { CopyId } from "@/ui/CopyId";
import { Section } from "./OverviewTab";

const most = 3;

// Served are the deployments that serve what a run made, each with a box to chat.
export default function Served({ runId }: { runId: string }) {
  const { t } = useTranslation("job");
  const { data } = useLineage({ kind: "run", id: runId });
  const ids = deploymentsOf(data?.nodes ?? []);
  if (ids.length === 0) return null;
  return (
    <Section title={t("served.title")}>
      <div className="grid grid-cols-1 gap-3">
        {ids.slice(0, most).map((id) => (
          <Deployment key={id} id={id} />
        ))}
      </div>
    </Section>
  );
}

function Deployment({ id }: { id: string }) {
  const { data } = useDeployment(id);
  if (!data) return null;
  const { name, url, promoted_revision_id: promoted } = data.value;
  const whole = absolute(url, location.origin);
  return (
    <div className="grid grid-cols-1 gap-2">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1 text-sm">
        <Link to="/deployments/$id" params={{ id }} className="min-w-0 font-medium text-accent hover:underline">
          <UntrustedText text={name} longest={128} />
        </Link>
        <CopyId id={whole} />
      </div>
      {promoted ? <TryIt deployment={id} url={`${location.origin}${new URL(whole).pathname}`} /> : null}
    </div>
  );
}

// deploymentsOf returns the ids of the deployments that have a revision of what the run made, each once.
export function deploymentsOf(nodes: readonly LineageNode[]): string[] {
  const made = nodes.filter((node) => node.kind === "revision" && node.visible && node.distance > 0);
  return [...new Set(made.flatMap((node) => node.id ?? []))];
}
