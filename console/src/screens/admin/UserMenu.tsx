import { Ellipsis } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { visible } from "@/lib/untrusted";
import { ConfirmDialog, DropdownMenu, IconButton, MenuItem, MenuSeparator } from "@/ui";
import { type Quota, type User, useAdminChanged } from "./api";
import { EditUser } from "./EditUser";
import { QuotaDialog } from "./QuotaDialog";
import { ResetPassword } from "./ResetPassword";
import { TransferDialog } from "./TransferDialog";

type Open = "edit" | "quota" | "password" | "transfer" | "disable" | null;

export function UserMenu({ user, quota }: { user: User; quota: Quota | undefined }) {
  const { t } = useTranslation("admin");
  const [open, setOpen] = useState<Open>(null);
  const changed = useAdminChanged();
  const close = () => setOpen(null);
  const name = visible(user.username, 64).text;
  const disabled = user.disabled_at !== null;
  return (
    <>
      <DropdownMenu
        trigger={<IconButton label={t("menuOf", { name })} icon={<Ellipsis size={15} aria-hidden />} tip={false} />}
      >
        <MenuItem onSelect={() => setOpen("edit")}>{t("edit")}</MenuItem>
        <MenuItem onSelect={() => setOpen("quota")}>{t("setQuota")}</MenuItem>
        <MenuItem onSelect={() => setOpen("password")} disabled={user.login !== "password"}>
          {t("resetPassword")}
        </MenuItem>
        <MenuItem onSelect={() => setOpen("transfer")}>{t("transfer")}</MenuItem>
        <MenuSeparator />
        <MenuItem danger={!disabled} onSelect={() => setOpen("disable")}>
          {disabled ? t("enable") : t("disable")}
        </MenuItem>
      </DropdownMenu>
      {open === "edit" ? <EditUser user={user} onClose={close} /> : null}
      {open === "quota" ? <QuotaDialog user={user} quota={quota} onClose={close} /> : null}
      {open === "password" ? <ResetPassword user={user} onClose={close} /> : null}
      {open === "transfer" ? <TransferDialog user={user} onClose={close} /> : null}
      <ConfirmDialog
        open={open === "disable"}
        onOpenChange={close}
        title={disabled ? t("enableTitle", { name }) : t("disableTitle", { name })}
        description={disabled ? t("enableWhy") : t("disableWhy")}
        action={disabled ? t("enable") : t("disable")}
        danger={!disabled}
        onConfirm={async () => {
          const params = { path: { user_id: user.id } };
          await call(api.PATCH("/api/admin/users/{user_id}", { params, body: { disabled: !disabled } }));
          await changed();
        }}
      />
    </>
  );
}
