import { useTranslation } from "react-i18next";
import { flatten } from "@/lib/flatten";
import { Bytes, Num, Time, UntrustedText } from "@/ui";
import { CopyId } from "@/ui/CopyId";
import { Fact, Facts } from "@/ui/Facts";
import { Panel } from "@/ui/Panel";
import type { Version } from "./api";

// Content shows the manifest of a version. Of its tasks it has only the digest and the counts.
export function Content({ version }: { version: Version }) {
  const { t } = useTranslation("environments");
  const { manifest } = version;
  return (
    <>
      {version.reason ? (
        <p className="rounded-md bg-bad-tint px-3 py-2 text-sm text-bad">
          <UntrustedText text={version.reason} longest={2000} />
        </p>
      ) : null}
      <Facts>
        <Fact label={t("digest")}>
          <CopyId id={version.digest} short={20} />
        </Fact>
        <Fact label={t("ready")}>
          <Time at={version.ready_at} />
        </Fact>
        <Fact label={t("tasks")}>
          {manifest?.taskset.infinite ? t("infinite") : <Num value={manifest?.taskset.count} />}
        </Fact>
        <Fact label={t("package")}>
          <Bytes value={version.package?.size_bytes} />
        </Fact>
      </Facts>
      <Panel title={t("manifest")}>
        <dl className="divide-y divide-line/60 rounded-lg border bg-card text-sm">
          {flatten(manifest).map(([path, value]) => (
            <div key={path} className="grid min-h-8 items-center gap-x-4 px-4 py-1 sm:grid-cols-[16rem_minmax(0,1fr)]">
              <dt className="font-mono text-xs text-soft [overflow-wrap:anywhere]">
                <UntrustedText text={path} longest={200} />
              </dt>
              <dd className="[overflow-wrap:anywhere]">
                <UntrustedText text={value} longest={2000} />
              </dd>
            </div>
          ))}
        </dl>
      </Panel>
    </>
  );
}
