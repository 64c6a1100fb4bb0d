import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { ApiError } from "@/api/error";
import { visible } from "@/lib/untrusted";
import { Field, Input, Num, toast } from "@/ui";
import { FormDialog } from "@/ui/FormDialog";
import { findUser, type User, useAdminChanged, useOwned } from "./api";

// TransferDialog gives everything that a user owns to another user.
export function TransferDialog({ user, onClose }: { user: User; onClose: () => void }) {
  const { t } = useTranslation("admin");
  const changed = useAdminChanged();
  const owned = useOwned(user.id);
  const [to, setTo] = useState("");
  const name = visible(user.username, 64).text;
  const save = async () => {
    const target = await findUser(to.trim());
    if (!target) throw new ApiError(404, null, to.trim(), [], null, 0);
    const params = { path: { user_id: user.id } };
    await call(api.POST("/api/admin/users/{user_id}/transfer", { params, body: { to_user_id: target.id } }));
    toast.success(t("transferred"));
    await changed();
  };
  return (
    <FormDialog
      title={t("transferTitle", { name })}
      description={t("transferWhy")}
      action={t("transfer")}
      danger
      onClose={onClose}
      onSave={save}
    >
      {() => (
        <>
          <Field label={t("newOwner")} hint={t("newOwnerHint")}>
            {(control) => (
              <Input
                {...control}
                autoFocus
                required
                maxLength={128}
                autoComplete="off"
                spellCheck={false}
                value={to}
                onChange={(e) => setTo(e.target.value)}
              />
            )}
          </Field>
          {owned.data ? (
            <ul aria-label={t("owned")} className="grid grid-cols-2 gap-x-6 text-sm">
              {owned.data.map((row) => (
                <li key={row.kind} className="flex justify-between border-b py-1">
                  {t(`kinds.${row.kind}`, { defaultValue: row.kind })}
                  <Num value={row.count} />
                </li>
              ))}
              {owned.data.length === 0 ? <li className="text-soft">{t("ownsNothing")}</li> : null}
            </ul>
          ) : null}
        </>
      )}
    </FormDialog>
  );
}
