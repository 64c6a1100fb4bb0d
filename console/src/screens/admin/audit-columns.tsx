import { useMemo } from "react";
import { useTranslation } from "react-i18next";
import { type Column, Nothing, Time, UntrustedText } from "@/ui";
import type { AuditRow } from "./api";

export function useAuditColumns(): Column<AuditRow>[] {
  const { t } = useTranslation("admin");
  return useMemo(
    () => [
      { id: "at", header: t("at"), width: "15.5rem", cell: (row) => <Time at={row.at} absolute /> },
      {
        id: "actor",
        header: t("actor"),
        width: "minmax(8rem,1fr)",
        cell: (row) => <Actor row={row} />,
      },
      {
        id: "action",
        header: t("action"),
        width: "minmax(10rem,1fr)",
        cell: (row) => <span className="font-mono text-xs">{row.action}</span>,
      },
      {
        id: "target",
        header: t("target"),
        width: "minmax(14rem,1.6fr)",
        cell: (row) => (
          <>
            <span className="text-soft">{row.target_kind}</span>{" "}
            <UntrustedText text={row.target_id} longest={80} className="font-mono text-xs" />
          </>
        ),
      },
      {
        id: "address",
        header: t("address"),
        width: "9rem",
        cell: (row) => (row.client_address ? <span className="tabular">{row.client_address}</span> : <Nothing />),
      },
      {
        id: "service",
        header: t("service"),
        width: "7rem",
        cell: (row) => <span className="text-soft">{row.service}</span>,
      },
    ],
    [t],
  );
}

export function Actor({ row }: { row: AuditRow }) {
  const { t } = useTranslation("admin");
  if (row.actor_name) return <UntrustedText text={row.actor_name} longest={128} className="font-medium" />;
  return (
    <>
      <span className="text-soft">{t(`actors.${row.actor_kind}`, { defaultValue: row.actor_kind })}</span>{" "}
      {row.actor_id ? <UntrustedText text={row.actor_id} longest={80} className="font-mono text-xs" /> : null}
    </>
  );
}
