import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { visible } from "@/lib/untrusted";
import { ConfirmDialog } from "@/ui";
import type { User } from "./api";
import { ShownOnce } from "./ShownOnce";

export function ResetPassword({ user, onClose }: { user: User; onClose: () => void }) {
  const { t } = useTranslation("admin");
  const [password, setPassword] = useState<string | null>(null);
  const name = visible(user.username, 64).text;
  if (password !== null) return <ShownOnce title={t("resetDone", { name })} secret={password} onClose={onClose} />;
  return (
    <ConfirmDialog
      open
      onOpenChange={(open) => !open && password === null && onClose()}
      title={t("resetTitle", { name })}
      description={t("resetWhy")}
      action={t("resetPassword")}
      danger
      onConfirm={async () => {
        const params = { path: { user_id: user.id } };
        const reset = await call(api.POST("/api/admin/users/{user_id}/reset-password", { params, body: {} }));
        setPassword(reset.password ?? "");
        // The dialog with the password takes the place of this one, so it must not close.
        await new Promise(() => undefined);
      }}
    />
  );
}
