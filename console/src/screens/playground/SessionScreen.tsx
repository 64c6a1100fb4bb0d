import { Square, Timer } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { errorMessage } from "@/api/message";
import { Button, ConfirmDialog, ErrorPanel, PageHeader, SkeletonLines, StateBadge, toast } from "@/ui";
import { CopyId } from "@/ui/CopyId";
import { end, extend, isOver, type Session, useSession, useSessionsChanged } from "./api";
import { sessionRoute } from "./area";
import { ChatColumn } from "./ChatColumn";
import { Composer } from "./Composer";
import { startParams } from "./chat";
import { Expiry, useLeft } from "./Expiry";
import { Transcript } from "./Transcript";
import { useColumns } from "./use-columns";

export function SessionScreen() {
  const { session: id } = sessionRoute.useParams();
  const { data, error, refetch } = useSession(id);
  if (data) return <Loaded key={data.id} session={data} />;
  if (error) return <ErrorPanel error={error} onRetry={() => void refetch()} />;
  return <SkeletonLines lines={6} className="max-w-2xl p-6" />;
}

function Loaded({ session }: { session: Session }) {
  const { t } = useTranslation("playground");
  const changed = useSessionsChanged();
  const [ending, setEnding] = useState(false);
  const [params, setParams] = useState(startParams);
  const { columns, ask, stop, clear } = useColumns(session.id);
  const left = useLeft(session);
  const over = isOver(session) || left <= 0;
  const busy = Object.values(columns).some((column) => column.busy);
  const ready = session.targets.filter((target) => target.state === "ready");
  const lengthen = async () => {
    try {
      await extend(session.id, 1800);
    } catch (error) {
      toast.error(errorMessage(t, error));
    }
    await changed();
  };
  return (
    <div className="flex min-h-0 flex-1 flex-col">
      <PageHeader
        name={session.title || t("untitled")}
        lead={<StateBadge state={over && !isOver(session) ? "expired" : session.state} />}
        actions={
          over ? null : (
            <>
              <Button icon={<Timer size={13} aria-hidden />} onClick={() => void lengthen()}>
                {t("extend")}
              </Button>
              <Button icon={<Square size={12} aria-hidden />} onClick={() => setEnding(true)}>
                {t("end")}
              </Button>
            </>
          )
        }
      >
        <div className="flex flex-wrap items-center gap-x-4 text-sm text-soft">
          <CopyId id={session.id} />
          {over ? null : <span>{t("idle", { minutes: Math.round(session.idle_timeout_s / 60) })}</span>}
        </div>
      </PageHeader>
      <Expiry session={session} left={left} onExtend={() => void lengthen()} />
      <div className="flex min-h-0 flex-1 snap-x snap-mandatory overflow-x-auto border-t">
        {session.targets.map((target) => (
          <ChatColumn
            key={target.target}
            session={session.id}
            target={target}
            column={columns[target.target]}
            params={params}
            over={over}
            onStop={() => stop(target.target)}
          />
        ))}
      </div>
      {over ? (
        <Transcript session={session.id} />
      ) : (
        <Composer
          busy={busy}
          ready={ready.length}
          of={session.targets.length}
          params={params}
          onParams={setParams}
          onSend={(text) => {
            for (const target of ready) void ask(target.target, text, params);
          }}
          onStop={() => stop()}
          onClear={Object.keys(columns).length > 0 ? clear : undefined}
        />
      )}
      <ConfirmDialog
        open={ending}
        onOpenChange={setEnding}
        danger
        title={t("endTitle")}
        description={t("endWhy")}
        action={t("end")}
        onConfirm={async () => {
          stop();
          try {
            await end(session.id);
          } finally {
            await changed();
          }
        }}
      />
    </div>
  );
}
