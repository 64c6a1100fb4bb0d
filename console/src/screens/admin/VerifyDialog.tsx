import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { Badge, Dialog, ErrorNote, Num, SkeletonLines, UntrustedText } from "@/ui";

// VerifyDialog checks the hash chains of the audit log when it opens.
export function VerifyDialog({ onClose }: { onClose: () => void }) {
  const { t } = useTranslation("admin");
  const report = useQuery({
    queryKey: ["admin", "verify"],
    queryFn: ({ signal }) => call(api.POST("/api/admin/audit/verify", { body: {}, signal })),
    gcTime: 0,
    staleTime: Number.POSITIVE_INFINITY,
    refetchOnWindowFocus: false,
  });
  return (
    <Dialog open onOpenChange={(open) => !open && onClose()} title={t("verify")} description={t("verifyWhy")}>
      {report.error ? <ErrorNote error={report.error} /> : null}
      {report.isPending ? <SkeletonLines lines={4} /> : null}
      {report.data ? (
        <div className="grid gap-3">
          <p role="status" className={report.data.ok ? "font-medium text-accent" : "font-medium text-bad"}>
            {report.data.ok ? t("chainsIntact") : t("chainsBroken")}
          </p>
          <ul className="divide-y rounded-lg border text-sm">
            {report.data.chains.map((chain) => (
              <li key={chain.service} className="grid gap-1 px-3 py-2">
                <span className="flex items-center gap-3">
                  <span className="flex-1 font-mono text-xs">{chain.service}</span>
                  <span className="text-soft">{t("chainRows", { count: chain.rows })}</span>
                  <span className="text-soft">
                    <Num value={chain.checkpoints} /> {t("checkpoints")}
                  </span>
                  <Badge tone={chain.ok ? "good" : "bad"}>{chain.ok ? t("intact") : t("broken")}</Badge>
                </span>
                {chain.fault ? (
                  <pre className="font-mono text-2xs whitespace-pre-wrap text-bad">
                    <UntrustedText text={chain.fault} longest={4000} />
                  </pre>
                ) : null}
              </li>
            ))}
          </ul>
        </div>
      ) : null}
    </Dialog>
  );
}
