import { useTranslation } from "react-i18next";
import { Dialog, Nothing, Time, UntrustedText } from "@/ui";
import { Fact, FactList, IdText } from "@/ui/FactList";
import type { AuditRow } from "./api";
import { Actor } from "./audit-columns";
import { ChangeTable } from "./ChangeTable";

export function AuditDetail({ row, onClose }: { row: AuditRow; onClose: () => void }) {
  const { t } = useTranslation("admin");
  return (
    <Dialog
      open
      size="lg"
      onOpenChange={(open) => !open && onClose()}
      title={<span className="font-mono text-base">{row.action}</span>}
    >
      <div className="grid gap-3">
        <FactList>
          <Fact label={t("at")}>
            <Time at={row.at} absolute />
          </Fact>
          <Fact label={t("actor")}>
            <Actor row={row} />
          </Fact>
          <Fact label={t("target")} wide>
            <span className="text-soft">{row.target_kind}</span>
            <UntrustedText text={row.target_id} longest={256} className="font-mono text-xs" />
          </Fact>
          <Fact label={t("address")}>{row.client_address ?? <Nothing />}</Fact>
          <Fact label={t("service")}>{row.service}</Fact>
          <Fact label={t("session")}>{row.session_id ? <IdText id={row.session_id} /> : <Nothing />}</Fact>
          <Fact label={t("request")}>{row.request_id ? <IdText id={row.request_id} /> : <Nothing />}</Fact>
          <Fact label={t("id")} wide>
            <IdText id={row.id} />
          </Fact>
        </FactList>
        <ChangeTable before={row.before} after={row.after} />
      </div>
    </Dialog>
  );
}
