import { Plus } from "lucide-react";
import { useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { byOffset, usePages } from "@/api/pages";
import { joinTokenCommand } from "@/lib/commands";
import { Badge, Button, type Column, ConfirmDialog, EmptyState, ErrorPanel, LoadMore, Table, Time } from "@/ui";
import { every, type Fleet, type JoinToken, useFleetsChanged } from "./api";
import { MintToken } from "./MintToken";

const size = 50;
const idOf = (token: JoinToken) => token.id;

export function JoinTokens({ fleet }: { fleet: Fleet }) {
  const { t } = useTranslation("fleets");
  const changed = useFleetsChanged();
  const [minting, setMinting] = useState(false);
  const [revoking, setRevoking] = useState<JoinToken | null>(null);
  const columns = useTokenColumns();
  const list = usePages<JoinToken, number>(
    ["fleets", fleet.id, "tokens"],
    size,
    0,
    async (limit, offset, signal) => {
      const params = { path: { fleet_id: fleet.id }, query: { limit, offset } };
      return byOffset(await call(api.GET("/api/fleets/{fleet_id}/join-tokens", { params, signal })), size, offset);
    },
    { refetchInterval: every },
  );
  const mint = (
    <Button variant="primary" icon={<Plus size={14} aria-hidden />} onClick={() => setMinting(true)}>
      {t("mint")}
    </Button>
  );
  const empty = !list.pending && list.rows.length === 0;
  return (
    <>
      {list.error && list.rows.length === 0 ? (
        <ErrorPanel error={list.error} onRetry={list.refetch} />
      ) : empty ? (
        <EmptyState
          title={t("noTokens")}
          why={t("noTokensWhy")}
          command={joinTokenCommand(fleet.id)}
          action={mint}
          docs="/docs"
        />
      ) : (
        <>
          <div className="flex justify-end px-4 py-2 md:px-6">{mint}</div>
          <Table
            label={t("view.tokens")}
            rows={list.rows}
            columns={columns}
            rowId={idOf}
            pending={list.pending}
            menuWidth="5.5rem"
            menu={(token) =>
              token.usable ? (
                <Button size="sm" variant="quiet" onClick={() => setRevoking(token)}>
                  {t("revoke")}
                </Button>
              ) : null
            }
            footer={<LoadMore more={list.more} busy={list.loadingMore} onMore={list.loadMore} />}
          />
        </>
      )}
      {minting ? <MintToken fleet={fleet} onClose={() => setMinting(false)} /> : null}
      <ConfirmDialog
        open={revoking !== null}
        onOpenChange={() => setRevoking(null)}
        title={t("revokeTitle")}
        description={t("revokeWhy")}
        action={t("revoke")}
        danger
        onConfirm={async () => {
          const path = { fleet_id: fleet.id, join_token_id: revoking?.id ?? "" };
          await call(api.DELETE("/api/fleets/{fleet_id}/join-tokens/{join_token_id}", { params: { path } }));
          await changed();
        }}
      />
    </>
  );
}

function useTokenColumns(): Column<JoinToken>[] {
  const { t } = useTranslation("fleets");
  return useMemo(
    () => [
      {
        id: "state",
        header: t("state"),
        width: "8rem",
        cell: (token) => (
          <Badge tone={token.usable ? "good" : "neutral"}>
            {token.usable ? t("usable") : token.revoked_at ? t("revoked") : t("unusable")}
          </Badge>
        ),
      },
      {
        id: "id",
        header: t("id"),
        width: "minmax(14rem,1fr)",
        cell: (token) => <span className="font-mono text-xs">{token.id}</span>,
      },
      {
        id: "uses",
        header: t("uses"),
        width: "6rem",
        numeric: true,
        cell: (token) => t("freeOf", { free: token.uses, total: token.max_uses }),
      },
      {
        id: "created",
        header: t("created"),
        width: "8rem",
        numeric: true,
        cell: (token) => <Time at={token.created_at} />,
      },
      {
        id: "expires",
        header: t("expires"),
        width: "8rem",
        numeric: true,
        cell: (token) => <Time at={token.expires_at} />,
      },
    ],
    [t],
  );
}
