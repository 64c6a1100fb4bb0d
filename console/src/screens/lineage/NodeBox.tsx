import { useTranslation } from "react-i18next";
import { cx } from "@/lib/cx";
import { UntrustedText } from "@/ui";
import { PathLink } from "@/ui/PathLink";
import type { LineageNode } from "./api";
import { box, type Placed, pathOf } from "./layout";

// NodeBox is a node of the drawing. It links to the screen of the object.
export function NodeBox({ placed, root }: { placed: Placed; root: boolean }) {
  const { node, x, y } = placed;
  const href = pathOf(node);
  const look = cx(
    "flex h-full flex-col justify-center rounded-md border px-3 text-left",
    node.visible ? "bg-card" : "border-dashed bg-sunken text-soft",
    root && "border-accent ring-1 ring-accent",
    href && !root && "hover:border-accent",
  );
  return (
    <li className="absolute" style={{ left: x, top: y, width: box.width, height: box.height }}>
      {href && !root ? (
        <PathLink href={href} className={look}>
          <Words node={node} />
        </PathLink>
      ) : (
        <div className={look} aria-current={root ? "true" : undefined}>
          <Words node={node} />
        </div>
      )}
    </li>
  );
}

function Words({ node }: { node: LineageNode }) {
  const { t } = useTranslation("lineage");
  return (
    <>
      <span className="flex items-baseline gap-1 text-xs text-soft">
        {t(`kind.${node.kind}`, { defaultValue: node.kind })}
        {node.version ? <UntrustedText text={node.version} longest={24} className="font-mono" /> : null}
        {node.more ? (
          <span className="ml-auto" title={t("moreHere")}>
            {t("andMore")}
          </span>
        ) : null}
      </span>
      <span className="truncate text-sm">
        {node.visible ? <UntrustedText text={node.name ?? ""} longest={64} /> : t("notVisible")}
      </span>
    </>
  );
}
