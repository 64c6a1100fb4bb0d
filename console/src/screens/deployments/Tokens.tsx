import { useQuery } from "@tanstack/react-query";
import { KeyRound, Plus } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { firstTokenCommand } from "@/lib/commands";
import {
  Badge,
  Button,
  ConfirmDialog,
  EmptyState,
  ErrorPanel,
  Nothing,
  Num,
  SkeletonLines,
  Time,
  UntrustedText,
} from "@/ui";
import { useChanged, useMetrics, useTokens } from "./api";
import { type Deployment, type Token, total } from "./deployment";
import { NewToken } from "./NewToken";

type Props = { deployment: Deployment; onToken: (secret: string | null) => void };

export default function Tokens({ deployment, onToken }: Props) {
  const { t } = useTranslation("deployments");
  const [creating, setCreating] = useState(false);
  const [revoking, setRevoking] = useState<Token | null>(null);
  const { data, error, refetch } = useTokens(deployment.id);
  const changed = useChanged();
  const revoke = async (token: Token) => {
    try {
      await call(
        api.DELETE("/api/model-deployments/{deployment_id}/tokens/{token_id}", {
          params: { path: { deployment_id: deployment.id, token_id: token.id } },
        }),
      );
      onToken(null);
    } finally {
      await changed();
    }
  };
  if (error && !data) return <ErrorPanel error={error} onRetry={() => void refetch()} />;
  if (!data) return <SkeletonLines lines={4} />;
  return (
    <div className="grid gap-3">
      <div className="flex flex-wrap items-center gap-2">
        <p className="text-sm text-soft">{t("tokensWhy")}</p>
        <Button
          variant="primary"
          className="ml-auto"
          icon={<Plus size={14} aria-hidden />}
          onClick={() => setCreating(true)}
        >
          {t("newToken")}
        </Button>
      </div>
      {data.length === 0 ? (
        <EmptyState
          title={t("noTokens")}
          why={t("noTokensWhy")}
          command={firstTokenCommand(deployment.id)}
          docs="/docs"
        />
      ) : (
        <div className="scroll-thin relative overflow-x-auto rounded-lg border bg-card">
          <table className="w-full text-left text-sm">
            <thead className="border-b bg-sunken text-xs text-soft">
              <tr>
                <Head>{t("name")}</Head>
                <Head>{t("prefix")}</Head>
                <Head right>{t("lastUsed")}</Head>
                <Head right>{t("callsDay")}</Head>
                <Head right>{t("created")}</Head>
                <Head right>{t("state")}</Head>
              </tr>
            </thead>
            <tbody className="divide-y divide-line/60">
              {data.map((token) => (
                <Row key={token.id} token={token} onRevoke={() => setRevoking(token)} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {creating ? <NewToken deployment={deployment.id} onToken={onToken} onClose={() => setCreating(false)} /> : null}
      {revoking ? (
        <ConfirmDialog
          open
          danger
          onOpenChange={(open) => !open && setRevoking(null)}
          title={t("revokeTitle", { name: revoking.name })}
          description={t("revokeWhy")}
          action={t("revoke")}
          onConfirm={() => revoke(revoking)}
        />
      ) : null}
    </div>
  );
}

function Head({ children, right = false }: { children: string; right?: boolean }) {
  return <th className={`px-3 py-1.5 font-medium whitespace-nowrap ${right ? "text-right" : ""}`}>{children}</th>;
}

function Row({ token, onRevoke }: { token: Token; onRevoke: () => void }) {
  const { t } = useTranslation("deployments");
  const last = useLastCall(token);
  const day = useMetrics(token.deployment_id, 86_400, 3600, { token: token.id, every: 60_000 });
  return (
    <tr className="h-8">
      <td className="px-3">
        <span className="flex items-center gap-2">
          <KeyRound size={13} aria-hidden className="shrink-0 text-soft" />
          <UntrustedText text={token.name} longest={128} className="font-medium" />
        </span>
      </td>
      <td className="px-3 font-mono text-xs">{token.prefix}…</td>
      <td className="px-3 text-right">{last ? <Time at={last} /> : <Nothing />}</td>
      <td className="px-3 text-right">{day.data ? <Num value={total(day.data.points).calls} /> : <Nothing />}</td>
      <td className="px-3 text-right">
        <Time at={token.created_at} />
      </td>
      <td className="px-3 text-right">
        {token.revoked_at ? (
          <Badge>{t("revoked")}</Badge>
        ) : (
          <Button
            size="sm"
            variant="quiet"
            className="text-bad"
            aria-label={t("revokeName", { name: token.name })}
            onClick={onRevoke}
          >
            {t("revoke")}
          </Button>
        )}
      </td>
    </tr>
  );
}

// useLastCall returns when the newest recorded call with a token began.
function useLastCall(token: Token): string | null {
  const { data } = useQuery({
    queryKey: ["deployments", token.deployment_id, "last", token.id],
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/model-deployments/{deployment_id}/traffic", {
          params: { path: { deployment_id: token.deployment_id }, query: { limit: 1, token: token.id } },
          signal,
        }),
      ),
    refetchInterval: 30_000,
  });
  return data?.[0]?.at ?? null;
}
