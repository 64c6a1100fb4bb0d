import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { problemOf } from "@/api/error";
import { visible } from "@/lib/untrusted";
import { Field, Input, Select } from "@/ui";
import { FormDialog } from "@/ui/FormDialog";
import { type Role, roles, type User, useAdminChanged } from "./api";

export function EditUser({ user, onClose }: { user: User; onClose: () => void }) {
  const { t } = useTranslation("admin");
  const changed = useAdminChanged();
  const [role, setRole] = useState<Role>(user.role === "admin" ? "admin" : "operator");
  const [name, setName] = useState(user.display_name ?? "");
  const [email, setEmail] = useState(user.email ?? "");
  // A field that is absent does not change, and no field can be emptied.
  const body = {
    ...(role !== user.role ? { role } : {}),
    ...(name.trim() !== "" && name.trim() !== user.display_name ? { display_name: name.trim() } : {}),
    ...(email.trim() !== "" && email.trim() !== user.email ? { email: email.trim() } : {}),
  };
  const save = async () => {
    try {
      await call(api.PATCH("/api/admin/users/{user_id}", { params: { path: { user_id: user.id } }, body }));
    } finally {
      await changed();
    }
  };
  return (
    <FormDialog
      title={t("editTitle", { name: visible(user.username, 64).text })}
      action={t("save")}
      onClose={onClose}
      onSave={save}
    >
      {(error) => (
        <>
          <Field label={t("role")} hint={user.login === "oidc" ? t("roleOidc") : t(`roleHint.${role}`)}>
            {(control) => (
              <Select
                id={control.id}
                value={role}
                onChange={setRole}
                options={roles.map((value) => ({ value, label: t(`roles.${value}`) }))}
              />
            )}
          </Field>
          <Field label={t("name")} error={problemOf(error, "body", "display_name")}>
            {(control) => <Input {...control} maxLength={128} value={name} onChange={(e) => setName(e.target.value)} />}
          </Field>
          <Field label={t("email")} error={problemOf(error, "body", "email")}>
            {(control) => (
              <Input
                {...control}
                type="email"
                maxLength={254}
                value={email}
                onChange={(e) => setEmail(e.target.value)}
              />
            )}
          </Field>
        </>
      )}
    </FormDialog>
  );
}
