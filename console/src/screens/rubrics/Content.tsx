import { useTranslation } from "react-i18next";
import { Badge, Markdown, Meter, Nothing, Num, Time, UntrustedText } from "@/ui";
import { CopyId } from "@/ui/CopyId";
import { Fact, Facts } from "@/ui/Facts";
import { Panel } from "@/ui/Panel";
import type { Version } from "./api";

type Criterion = NonNullable<Version["content"]>["criteria"][number];

export function Content({ version }: { version: Version }) {
  const { t } = useTranslation("rubrics");
  const { content } = version;
  const total = content?.criteria.reduce((sum, c) => sum + c.weight, 0) ?? 0;
  return (
    <>
      <Facts>
        <Fact label={t("aggregation")}>{t(`aggregations.${content?.aggregation || "weighted_mean"}`)}</Fact>
        <Fact label={t("passAt")}>{content?.pass_at === null ? <Nothing /> : <Num value={content?.pass_at} />}</Fact>
        <Fact label={t("published")}>
          <Time at={version.published_at} />
        </Fact>
        <Fact label={t("digest")}>
          <CopyId id={version.digest} short={20} />
        </Fact>
      </Facts>
      {content?.instructions ? (
        <Panel title={t("instructions")}>
          <Markdown text={content.instructions} />
        </Panel>
      ) : null}
      <Panel title={t("criteria")}>
        <ol className="divide-y divide-line rounded-lg border bg-card">
          {content?.criteria.map((criterion) => (
            <CriterionRow key={criterion.key} criterion={criterion} total={total} />
          ))}
        </ol>
      </Panel>
    </>
  );
}

function CriterionRow({ criterion, total }: { criterion: Criterion; total: number }) {
  const { t } = useTranslation("rubrics");
  const { scale } = criterion;
  const name = criterion.title || criterion.key;
  return (
    <li className="grid gap-1 px-4 py-2 text-sm">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
        <h3 className="font-medium">
          <UntrustedText text={name} longest={200} />
        </h3>
        <span className="font-mono text-xs text-soft">
          <UntrustedText text={criterion.key} longest={64} />
        </span>
        <Badge>{t(`kinds.${criterion.kind}`)}</Badge>
        {criterion.veto ? <Badge tone="warn">{t("veto")}</Badge> : null}
        {criterion.na_allowed ? <Badge>{t("naAllowed")}</Badge> : null}
        {criterion.evidence_required ? <Badge>{t("evidence")}</Badge> : null}
        <span className="ml-auto flex w-36 items-center gap-2">
          <Meter value={criterion.weight} max={total} label={t("weightOf", { name })} />
          <Num value={criterion.weight} />
        </span>
      </div>
      {criterion.description ? (
        <p className="max-w-prose text-soft">
          <UntrustedText text={criterion.description} longest={4000} />
        </p>
      ) : null}
      {scale ? (
        <dl className="grid gap-x-3 text-xs sm:grid-cols-[4rem_minmax(0,1fr)]">
          {scale.anchors.map((anchor) => (
            <div key={anchor.value} className="contents">
              <dt className="text-right">
                <Num value={anchor.value} />
              </dt>
              <dd className="text-soft">
                <UntrustedText text={anchor.description} longest={1000} />
              </dd>
            </div>
          ))}
          {scale.anchors.length === 0 ? (
            <dd className="sm:col-span-2">{t("scale", { min: scale.min, max: scale.max })}</dd>
          ) : null}
        </dl>
      ) : null}
    </li>
  );
}
