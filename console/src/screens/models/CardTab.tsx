import { Pencil } from "lucide-react";
import { lazy, Suspense, useState } from "react";
import { useTranslation } from "react-i18next";
import type { ModelVersion } from "@/api/models";
import { Button, Bytes, ErrorPanel, Markdown, Num, SkeletonLines, Time, UntrustedText } from "@/ui";
import { CopyId } from "@/ui/CopyId";
import { Fact, Facts } from "@/ui/Facts";
import { useCard } from "./api";
import { factsOf } from "./facts";

const CardEditor = lazy(() => import("./CardEditor"));

// CardTab is what a user wants to know of a version: its card, and what its files say.
export function CardTab({ version }: { version: ModelVersion }) {
  const { t } = useTranslation("models");
  const [editing, setEditing] = useState(false);
  const exists = version.card_digest !== null;
  const card = useCard(version.model_id, version.version, exists);
  const text = card.data?.value;
  return (
    <div className="grid gap-6 lg:grid-cols-[minmax(0,1fr)_24rem]">
      <section aria-label={t("tabs.card")} className="min-w-0">
        {card.error && !text ? (
          <ErrorPanel error={card.error} onRetry={() => void card.refetch()} />
        ) : exists && !text ? (
          <SkeletonLines lines={6} />
        ) : text ? (
          <Markdown text={text.body} />
        ) : (
          <p className="text-sm text-soft">{t("noCard")}</p>
        )}
        <div className="mt-4 flex flex-wrap items-center gap-3 text-xs text-soft">
          <Button size="sm" icon={<Pencil size={12} aria-hidden />} onClick={() => setEditing(true)}>
            {text ? t("editCard") : t("writeCard")}
          </Button>
          {text ? (
            <span>
              {t("cardRevision", { revision: text.revision })} · <UntrustedText text={text.author} longest={128} /> ·{" "}
              <Time at={text.created_at} />
            </span>
          ) : null}
        </div>
      </section>
      <aside className="min-w-0">
        <Facts narrow>
          {factsOf(text?.front_matter).map(([name, value]) => (
            <Fact key={`card ${name}`} label={name}>
              <UntrustedText text={String(value)} longest={200} />
            </Fact>
          ))}
          <Fact label={t("format")}>{version.format}</Fact>
          <Fact label={t("size")}>
            <Bytes value={version.size_bytes} />
          </Fact>
          {version.base ? (
            <Fact label={t("base")} wide>
              <CopyId id={version.base} />
            </Fact>
          ) : null}
          {factsOf(version.facts).map(([name, value]) => (
            <Fact key={name} label={t(`facts.${name}`, { defaultValue: name })}>
              {typeof value === "number" ? <Num value={value} /> : <UntrustedText text={value} longest={200} />}
            </Fact>
          ))}
          <Fact label={t("digest")}>
            <CopyId id={version.digest} short={20} />
          </Fact>
        </Facts>
      </aside>
      <Suspense fallback={null}>
        {editing ? (
          <CardEditor
            version={version}
            start={text?.content ?? ""}
            etag={card.data?.etag ?? null}
            onClose={() => setEditing(false)}
          />
        ) : null}
      </Suspense>
    </div>
  );
}
