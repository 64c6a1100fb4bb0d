import { useMemo } from "react";
import { useTranslation } from "react-i18next";
import { Badge, type Column, Nothing, Num, Time, UntrustedText } from "@/ui";
import { PathLink } from "@/ui/PathLink";
import { type Share, stateOf } from "./api";

export function useShareColumns(): Column<Share>[] {
  const { t } = useTranslation("shares");
  return useMemo(
    () => [
      {
        id: "state",
        header: t("state"),
        width: "6.5rem",
        cell: (share) => {
          const state = stateOf(share, Date.now());
          return <Badge tone={state === "active" ? "good" : "neutral"}>{t(`states.${state}`)}</Badge>;
        },
      },
      {
        id: "title",
        header: t("name"),
        width: "minmax(9rem,1.4fr)",
        cell: (share) =>
          share.title ? (
            <UntrustedText text={share.title} longest={128} className="font-medium" />
          ) : (
            <span className="text-soft">{t(`kind.${share.kind}`)}</span>
          ),
      },
      { id: "targets", header: t("targets"), width: "minmax(10rem,1.2fr)", cell: (share) => <Targets share={share} /> },
      {
        id: "fields",
        header: t("shows"),
        width: "minmax(8.5rem,1fr)",
        cell: (share) => (
          <span className="text-soft">
            {share.fields.map((field) => t(`field.${field}`, { defaultValue: field })).join(" · ")}
          </span>
        ),
      },
      {
        id: "prefix",
        header: t("prefix"),
        width: "6.5rem",
        cell: (share) => <span className="font-mono text-xs">{share.prefix}…</span>,
      },
      { id: "views", header: t("views"), width: "4rem", numeric: true, cell: (share) => <Num value={share.views} /> },
      {
        id: "viewed",
        header: t("viewed"),
        width: "6.5rem",
        numeric: true,
        cell: (share) => <Time at={share.last_viewed_at} />,
      },
      {
        id: "expires",
        header: t("expires"),
        width: "6.5rem",
        numeric: true,
        cell: (share) =>
          share.expires_at ? <Time at={share.expires_at} /> : <span className="text-soft">{t("never")}</span>,
      },
    ],
    [t],
  );
}

function Targets({ share }: { share: Share }) {
  const [first, ...others] = share.target_ids;
  if (!first) return <Nothing />;
  const folder = first.startsWith("run_") ? "runs" : "jobs";
  return (
    <>
      <PathLink href={`/${folder}/${first}`} className="font-mono text-xs hover:underline">
        {first}
      </PathLink>
      {others.length > 0 ? <span className="text-soft"> +{others.length}</span> : null}
    </>
  );
}
