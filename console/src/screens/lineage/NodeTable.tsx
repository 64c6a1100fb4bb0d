import { useTranslation } from "react-i18next";
import { StateBadge, Time, UntrustedText } from "@/ui";
import { PathLink } from "@/ui/PathLink";
import type { Lineage, LineageNode } from "./api";
import { pathOf } from "./layout";

// NodeTable is the graph as a table: each object, how far it is away, and what it was made from.
export function NodeTable({ lineage }: { lineage: Lineage }) {
  const { t } = useTranslation("lineage");
  const nodes = lineage.nodes.toSorted((a, b) => a.distance - b.distance);
  return (
    <div className="scroll-thin relative overflow-x-auto rounded-lg border bg-card">
      <table className="w-full text-left text-sm">
        <caption className="sr-only">{t("table")}</caption>
        <thead className="border-b bg-sunken text-xs text-soft">
          <tr>
            {(["object", "kindOf", "state", "steps", "madeFrom", "created"] as const).map((name) => (
              <th key={name} className="px-3 py-1.5 font-medium">
                {t(`column.${name}`)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody className="divide-y divide-line/60">
          {nodes.map((node) => (
            <tr key={node.key} className="h-8">
              <td className="px-3">
                <Name node={node} />
              </td>
              <td className="px-3 text-soft">{t(`kind.${node.kind}`, { defaultValue: node.kind })}</td>
              <td className="px-3">{node.state ? <StateBadge state={node.state} /> : null}</td>
              <td className="px-3 text-right tabular-nums">{node.distance}</td>
              <td className="px-3">
                <Sources lineage={lineage} node={node} />
              </td>
              <td className="px-3 text-soft">{node.made_at ? <Time at={node.made_at} /> : null}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Name({ node }: { node: LineageNode }) {
  const { t } = useTranslation("lineage");
  const href = pathOf(node);
  if (!href) return <span className="text-soft">{t("notVisible")}</span>;
  return (
    <PathLink href={href} className="text-accent hover:underline">
      <UntrustedText text={node.version ? `${node.name} @ ${node.version}` : (node.name ?? "")} longest={128} />
    </PathLink>
  );
}

function Sources({ lineage, node }: { lineage: Lineage; node: LineageNode }) {
  const { t } = useTranslation("lineage");
  const edges = lineage.edges.filter((edge) => edge.target === node.key);
  return (
    <ul className="flex flex-wrap gap-x-3">
      {edges.map((edge) => {
        const source = lineage.nodes.find((other) => other.key === edge.source);
        return (
          <li key={`${edge.source}-${edge.relation}-${edge.detail}`}>
            <span className="text-xs text-soft">
              {t(`relation.${edge.relation}`, { defaultValue: edge.relation })}{" "}
            </span>
            {source?.visible ? <UntrustedText text={source.name ?? ""} longest={64} /> : t("notVisible")}
          </li>
        );
      })}
    </ul>
  );
}
