import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { Badge, ErrorNote, Time, UntrustedText } from "@/ui";
import { Panel } from "@/ui/Panel";
import { questionOf, replyOf } from "./transcript-text";

// Transcript shows the messages of a session that is over.
export function Transcript({ session }: { session: string }) {
  const { t } = useTranslation("playground");
  const { data, error } = useQuery({
    queryKey: ["playground", session, "transcript"],
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/playground/sessions/{playground_id}/transcript", {
          params: { path: { playground_id: session }, query: { limit: 50 } },
          signal,
        }),
      ),
  });
  if (error && !data) return <ErrorNote error={error} className="m-4" />;
  if (!data) return null;
  return (
    <div className="scroll-thin max-h-[60%] overflow-y-auto border-t px-4 py-3 md:px-6">
      <Panel title={t("transcript")}>
        {data.length === 0 ? <p className="text-sm text-soft">{t("noTranscript")}</p> : null}
        <ol className="grid gap-2">
          {data.map((turn) => (
            <li key={turn.id} className="rounded-lg border bg-card px-3 py-2 text-sm">
              <div className="flex flex-wrap items-center gap-x-3 text-xs text-soft">
                <span>{t("column", { number: turn.target })}</span>
                <UntrustedText text={turn.username} longest={128} />
                <Time at={turn.at} />
                {turn.outcome === "ok" ? null : (
                  <Badge tone="warn">
                    {t(`outcomes.${turn.outcome}`, { ns: "deployments", defaultValue: turn.outcome })}
                  </Badge>
                )}
              </div>
              <p className="mt-1 whitespace-pre-wrap text-soft">
                <UntrustedText text={questionOf(turn.request)} longest={20_000} />
              </p>
              <p className="mt-1 break-words whitespace-pre-wrap">
                <UntrustedText text={replyOf(turn.response)} longest={60_000} />
              </p>
            </li>
          ))}
        </ol>
      </Panel>
    </div>
  );
}
