import { useTranslation } from "react-i18next";
import { ErrorPanel, SkeletonLines } from "@/ui";
import { type Origin, useLineage } from "./api";
import { draw } from "./layout";
import { NodeBox } from "./NodeBox";
import { NodeTable } from "./NodeTable";

// LineageTab shows what an object was made from, on the left, and what was made from it, as a drawing and as a table.
export function LineageTab({ of, className }: { of: Origin; className?: string }) {
  const { t } = useTranslation("lineage");
  const { data, error, refetch } = useLineage(of);
  if (error && !data) return <ErrorPanel error={error} onRetry={() => void refetch()} />;
  if (!data) return <SkeletonLines lines={5} className={className} />;
  const { nodes, lines, width, height } = draw(data.nodes, data.edges);
  return (
    <div className={className}>
      <p className="mb-2 max-w-prose text-sm text-soft">
        {nodes.length === 1 ? t("alone") : t("about")} {data.more ? t("more") : null}
      </p>
      {nodes.length === 1 ? null : (
        <section aria-label={t("graph")} className="scroll-thin mb-4 overflow-auto rounded-lg border bg-sunken p-4">
          <div className="relative" style={{ width, height }}>
            <svg className="absolute inset-0 text-line" width={width} height={height} aria-hidden="true">
              <g fill="none" stroke="currentColor" strokeWidth={1.5}>
                {lines.map((line) => (
                  <path key={line.key} d={line.path} />
                ))}
              </g>
            </svg>
            <ol>
              {nodes.map((placed) => (
                <NodeBox key={placed.node.key} placed={placed} root={placed.node.key === data.root} />
              ))}
            </ol>
          </div>
        </section>
      )}
      <NodeTable lineage={data} />
    </div>
  );
}
