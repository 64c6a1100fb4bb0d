import { useQueryClient } from "@tanstack/react-query";
import { LogOut } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, call, type Schemas } from "@/api/client";
import { errorMessage } from "@/api/message";
import { byOffset, usePages } from "@/api/pages";
import { session } from "@/auth/browser";
import { Badge, Button, ConfirmDialog, ErrorNote, LoadMore, SkeletonLines, Time, toast, UntrustedText } from "@/ui";
import { Section } from "./Section";

type UserSession = Schemas["UserSession"];
const key = ["sessions", "list"];
const size = 20;

export function Sessions() {
  const { t } = useTranslation("settings");
  const queries = useQueryClient();
  const [all, setAll] = useState(false);
  const list = usePages<UserSession, number>(key, size, 0, async (limit, offset, signal) =>
    byOffset(
      await call(api.GET("/api/profile/sessions", { params: { query: { limit, offset } }, signal })),
      size,
      offset,
    ),
  );
  const revoke = async (id: string) => {
    try {
      await call(api.DELETE("/api/profile/sessions/{session_id}", { params: { path: { session_id: id } } }));
      toast.success(t("revoked"));
    } catch (error) {
      toast.error(errorMessage(t, error));
    }
    await queries.invalidateQueries({ queryKey: key });
  };
  return (
    <Section
      title={t("sessions")}
      hint={t("sessionsHint")}
      aside={
        <Button size="sm" className="mt-2" icon={<LogOut size={12} aria-hidden />} onClick={() => setAll(true)}>
          {t("everywhere")}
        </Button>
      }
    >
      {list.error && list.rows.length === 0 ? (
        <ErrorNote error={list.error} className="m-3" />
      ) : list.pending ? (
        <SkeletonLines lines={3} className="px-4 py-3" />
      ) : (
        <ul className="divide-y">
          {list.rows.map((row) => (
            <Row key={row.id} row={row} onRevoke={() => void revoke(row.id)} />
          ))}
        </ul>
      )}
      <LoadMore more={list.more} busy={list.loadingMore} onMore={list.loadMore} />
      <ConfirmDialog
        open={all}
        onOpenChange={setAll}
        title={t("everywhereTitle")}
        description={t("everywhereWhy")}
        action={t("everywhere")}
        danger
        onConfirm={async () => {
          await call(api.DELETE("/api/profile/sessions"));
          session.lose();
        }}
      />
    </Section>
  );
}

function Row({ row, onRevoke }: { row: UserSession; onRevoke: () => void }) {
  const { t } = useTranslation("settings");
  return (
    <li className="flex min-h-11 items-center gap-3 px-4 py-1.5 text-sm">
      <div className="min-w-0 flex-1">
        <span className="flex items-center gap-2 font-medium">
          {row.client_name ? (
            <UntrustedText text={row.client_name} longest={100} className="truncate" />
          ) : (
            t(`method.${row.method}`, { defaultValue: row.method })
          )}
          {row.current ? <Badge tone="good">{t("current")}</Badge> : null}
        </span>
        <span className="flex flex-wrap gap-x-3 text-xs text-soft">
          <span className="tabular">{row.client_address}</span>
          <span>
            {t("opened")} <Time at={row.created_at} />
          </span>
          <span>
            {t("used")} <Time at={row.last_used_at} />
          </span>
        </span>
      </div>
      {row.current ? null : (
        <Button size="sm" onClick={onRevoke} aria-label={t("revokeOf", { address: row.client_address })}>
          {t("revoke")}
        </Button>
      )}
    </li>
  );
}
