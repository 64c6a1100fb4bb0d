import { useMemo } from "react";
import { useTranslation } from "react-i18next";
import { Badge, Bytes, type Column, CopyButton, Nothing, Num, Time, UntrustedText } from "@/ui";
import type { Artifact } from "./api";
import { fileOf } from "./artifact";

export function useArtifactColumns(): Column<Artifact>[] {
  const { t } = useTranslation("artifacts");
  return useMemo(
    () => [
      { id: "kind", header: t("kind"), width: "8rem", fixed: true, cell: (a) => t(`kinds.${a.kind}`, a.kind) },
      {
        id: "file",
        header: t("file"),
        width: "minmax(12rem,2fr)",
        cell: (a) => (
          <span className="flex min-w-0 items-center gap-2">
            <span title={a.path} className="truncate font-mono text-xs">
              <UntrustedText text={fileOf(a)} />
            </span>
            {a.removed_at === null ? null : (
              <span title={t("removedWhy")}>
                <Badge>{t("removed")}</Badge>
              </span>
            )}
          </span>
        ),
      },
      { id: "step", header: t("step"), width: "5rem", numeric: true, cell: (a) => <Num value={a.step} /> },
      { id: "format", header: t("format"), width: "7rem", cell: (a) => <UntrustedText text={a.format} longest={40} /> },
      { id: "size", header: t("size"), width: "6rem", numeric: true, cell: (a) => <Bytes value={a.size_bytes} /> },
      { id: "digest", header: t("digest"), width: "9rem", cell: (a) => <Digest value={a.sha256} /> },
      { id: "attempt", header: t("attempt"), width: "5.5rem", numeric: true, cell: (a) => <Num value={a.attempt} /> },
      { id: "created", header: t("created"), width: "7rem", cell: (a) => <Time at={a.created_at} /> },
    ],
    [t],
  );
}

function Digest({ value }: { value: string | null }) {
  const { t } = useTranslation("artifacts");
  if (value === null) return <Nothing />;
  return (
    <span className="flex items-center gap-1 font-mono text-xs" title={value}>
      {value.slice(0, 12)}
      <CopyButton text={value} label={t("copyDigest")} />
    </span>
  );
}
