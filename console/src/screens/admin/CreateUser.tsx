import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { problemOf } from "@/api/error";
import { Field, Input, Select } from "@/ui";
import { FormDialog } from "@/ui/FormDialog";
import { type Role, roles, useAdminChanged } from "./api";
import { ShownOnce } from "./ShownOnce";

export function CreateUser({ onClose }: { onClose: () => void }) {
  const { t } = useTranslation("admin");
  const changed = useAdminChanged();
  const [values, setValues] = useState({ username: "", display_name: "", email: "" });
  const [role, setRole] = useState<Role>("operator");
  const [password, setPassword] = useState<string | null>(null);
  const set = (change: Partial<typeof values>) => setValues({ ...values, ...change });
  if (password !== null) {
    return <ShownOnce title={t("userAdded", { name: values.username })} secret={password} onClose={onClose} />;
  }
  const save = async () => {
    const body = {
      username: values.username.trim(),
      role,
      display_name: values.display_name.trim() || null,
      email: values.email.trim() || null,
    };
    const created = await call(api.POST("/api/admin/users", { body }));
    await changed();
    if (created.password) setPassword(created.password);
    return created.password;
  };
  return (
    <FormDialog
      title={t("addUser")}
      description={t("addUserWhy")}
      action={t("add")}
      // The dialog with the password takes the place of this one.
      onClose={() => undefined}
      onCancel={onClose}
      onSave={save}
    >
      {(error) => (
        <>
          <Field label={t("username")} hint={t("usernameHint")} error={problemOf(error, "body", "username")}>
            {(control) => (
              <Input
                {...control}
                autoFocus
                required
                maxLength={64}
                autoComplete="off"
                spellCheck={false}
                value={values.username}
                onChange={(e) => set({ username: e.target.value })}
              />
            )}
          </Field>
          <Field label={t("role")} hint={t(`roleHint.${role}`)}>
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
            {(control) => (
              <Input
                {...control}
                maxLength={128}
                value={values.display_name}
                onChange={(e) => set({ display_name: e.target.value })}
              />
            )}
          </Field>
          <Field label={t("email")} error={problemOf(error, "body", "email")}>
            {(control) => (
              <Input
                {...control}
                type="email"
                maxLength={254}
                value={values.email}
                onChange={(e) => set({ email: e.target.value })}
              />
            )}
          </Field>
        </>
      )}
    </FormDialog>
  );
}
