import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { problemOf, toApiError } from "@/api/error";
import { Button, Field, Input, Select, Textarea, Time, UntrustedText } from "@/ui";
import { FormDialog } from "@/ui/FormDialog";
import { type Setting, useAdminChanged } from "./api";
import { shownValue, textOf, valueFrom } from "./setting";

// SettingDialog changes a setting. If another admin has changed it meanwhile, the server refuses and the new value is shown.
export function SettingDialog({ setting, onClose }: { setting: Setting; onClose: () => void }) {
  const { t } = useTranslation("admin");
  const changed = useAdminChanged();
  const [text, setText] = useState(textOf(setting));
  // The change is based on what was read when the dialog opened, or on what a conflict has shown.
  const [version, setVersion] = useState(setting.version);
  const stale = version !== setting.version;
  const put = async (value: unknown) => {
    try {
      const params = { path: { key: setting.key } };
      await call(api.PUT("/api/admin/settings/{key}", { params, body: { value, version } }));
    } catch (error) {
      if (toApiError(error).status === 409) await changed();
      throw error;
    }
    await changed();
  };
  const reset = () => put(null).then(onClose, () => undefined);
  return (
    <FormDialog
      title={setting.key}
      description={<span data-format>{setting.description}</span>}
      action={t("save")}
      size="md"
      onClose={onClose}
      onSave={() => put(valueFrom(setting.type, text))}
    >
      {(error) => (
        <>
          {stale ? (
            <p role="alert" className="flex items-center gap-3 rounded-md bg-warn-tint px-3 py-2 text-sm text-warn">
              <span className="flex-1">
                {t("settingStale")} <UntrustedText text={shownValue(setting.value)} longest={200} />
              </span>
              <Button size="sm" onClick={() => setVersion(setting.version)}>
                {t("overwrite")}
              </Button>
            </p>
          ) : null}
          <Field
            label={t("value")}
            hint={
              setting.type === "secret"
                ? t("secretHint")
                : t("defaultIs", { value: shownValue(setting.default) || "–" })
            }
            error={problemOf(error, "body", "value")}
          >
            {(control) => <Control setting={setting} control={control} text={text} onChange={setText} />}
          </Field>
          {setting.set ? (
            <div>
              <Button size="sm" onClick={() => void reset()}>
                {t("resetDefault")}
              </Button>
            </div>
          ) : null}
          <History setting={setting} />
        </>
      )}
    </FormDialog>
  );
}

type ControlProps = {
  setting: Setting;
  control: { id: string };
  text: string;
  onChange: (text: string) => void;
};

function Control({ setting, control, text, onChange }: ControlProps) {
  const { t } = useTranslation("admin");
  if (setting.type === "boolean") {
    return (
      <Select
        id={control.id}
        value={text}
        onChange={onChange}
        options={["true", "false"].map((value) => ({ value, label: t(`bool.${value}`) }))}
      />
    );
  }
  if (setting.type === "string_list") {
    return <Textarea {...control} spellCheck={false} value={text} onChange={(e) => onChange(e.target.value)} />;
  }
  return (
    <Input
      {...control}
      autoFocus
      spellCheck={false}
      autoComplete="off"
      type={setting.type === "secret" ? "password" : setting.type === "integer" ? "number" : "text"}
      value={text}
      onChange={(e) => onChange(e.target.value)}
    />
  );
}

function History({ setting }: { setting: Setting }) {
  const { t } = useTranslation("admin");
  const versions = useQuery({
    queryKey: ["admin", "settings", setting.key, setting.version],
    enabled: setting.version > 0,
    queryFn: ({ signal }) => {
      const params = { path: { key: setting.key }, query: { limit: 10 } };
      return call(api.GET("/api/admin/settings/{key}/versions", { params, signal }));
    },
  });
  if (!versions.data || versions.data.length === 0) return null;
  return (
    <section aria-label={t("history")} className="grid gap-1">
      <h3 className="text-xs font-medium text-soft">{t("history")}</h3>
      <ul className="divide-y rounded-lg border text-xs">
        {versions.data.map((v) => (
          <li key={v.version} className="flex min-h-7 items-center gap-3 px-3">
            <span className="w-8 tabular text-soft">{v.version}</span>
            <UntrustedText
              text={shownValue(v.value) || "–"}
              longest={120}
              className="min-w-0 flex-1 truncate font-mono"
            />
            <UntrustedText text={v.changed_by} longest={128} />
            <Time at={v.changed_at} />
          </li>
        ))}
      </ul>
    </section>
  );
}
