import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { Checkbox } from "@/ui";
import { FormDialog } from "@/ui/FormDialog";
import { useAdminChanged } from "./api";
import type { Purpose } from "./KeysScreen";

export function RotateDialog({ purpose, onClose }: { purpose: Purpose; onClose: () => void }) {
  const { t } = useTranslation("admin");
  const changed = useAdminChanged();
  const [revoke, setRevoke] = useState(false);
  return (
    <FormDialog
      title={t("rotateTitle")}
      description={t(`purpose.${purpose}`)}
      action={t("rotate")}
      danger={revoke}
      onClose={onClose}
      onSave={async () => {
        await call(api.POST("/api/admin/keys/rotate", { body: { purpose, revoke } }));
        await changed();
      }}
    >
      {() => (
        <>
          <p className="text-sm text-soft">{revoke ? t("revokeKeysWhy") : t("rotateWhy")}</p>
          <Checkbox showLabel label={t("revokeKeys")} checked={revoke} onChange={setRevoke} />
        </>
      )}
    </FormDialog>
  );
}
