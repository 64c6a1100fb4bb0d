import { useEffect } from "react";
import { useTranslation } from "react-i18next";
import { toApiError } from "@/api/error";
import { useTitle } from "@/lib/title";
import { visible } from "@/lib/untrusted";
import { Badge, EmptyState, ErrorPanel, SkeletonLines, Time } from "@/ui";
import { type Shared, useShared } from "./api";
import { sharedRoute } from "./area";
import { SharedConfigs } from "./SharedConfigs";
import { SharedMetrics } from "./SharedMetrics";
import { SharedRuns } from "./SharedRuns";
import { SharedSamples } from "./SharedSamples";
import { ThemeButton } from "./ThemeButton";

// SharedScreen is the public page of a link. Search engines must not list it, and its address must not leak.
export function SharedScreen() {
  const { token } = sharedRoute.useParams();
  const { t } = useTranslation("shares");
  const shared = useShared(token);
  useTitle(shared.data?.title ? visible(shared.data.title, 128).text : t("shared"));
  useHead();
  const unknown = shared.error !== null && [400, 404, 422].includes(toApiError(shared.error).status);
  return (
    <main className="mx-auto grid w-full max-w-5xl content-start gap-6 px-4 py-6">
      {unknown ? (
        <>
          <h1 className="sr-only">{t("unknown")}</h1>
          <EmptyState title={t("unknown")} why={t("unknownWhy")} />
        </>
      ) : shared.data ? (
        <Content token={token} shared={shared.data} />
      ) : shared.error ? (
        <ErrorPanel error={shared.error} onRetry={() => void shared.refetch()} />
      ) : (
        <SkeletonLines lines={6} />
      )}
    </main>
  );
}

function Content({ token, shared }: { token: string; shared: Shared }) {
  const { t } = useTranslation("shares");
  const has = (field: string) => shared.fields.includes(field);
  return (
    <>
      <header className="flex flex-wrap items-center gap-x-3 gap-y-1">
        <h1 className="text-xl font-semibold tracking-tight [overflow-wrap:anywhere]">
          {visible(shared.title ?? shared.runs[0]?.name ?? t("shared"), 128).text}
        </h1>
        {shared.pinned ? <Badge>{t("pinned")}</Badge> : null}
        <span className="ml-auto flex items-center gap-3 text-xs text-soft">
          <span>
            {t("sharedAt")} <Time at={shared.created_at} />
          </span>
          {shared.expires_at ? (
            <span>
              {t("expires")} <Time at={shared.expires_at} />
            </span>
          ) : null}
          <ThemeButton />
        </span>
      </header>
      <SharedRuns runs={shared.runs} />
      {has("metrics") ? <SharedMetrics token={token} shared={shared} /> : null}
      {has("config") ? <SharedConfigs token={token} shared={shared} /> : null}
      {has("samples") ? <SharedSamples token={token} shared={shared} /> : null}
    </>
  );
}

// useHead marks the page for search engines and keeps its address out of the requests to other sites.
function useHead() {
  useEffect(() => {
    const tags = [
      ["robots", "noindex, nofollow"],
      ["referrer", "no-referrer"],
    ].map(([name = "", content = ""]) => {
      const tag = document.createElement("meta");
      tag.name = name;
      tag.content = content;
      document.head.append(tag);
      return tag;
    });
    return () => {
      for (const tag of tags) tag.remove();
    };
  }, []);
}
