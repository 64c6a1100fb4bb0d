import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useCallback, useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { Badge, type Column, ErrorPanel, FilterBar, PageHeader, Table, Time, UntrustedText } from "@/ui";
import type { Setting } from "./api";
import { installationRoute } from "./area";
import { SettingDialog } from "./SettingDialog";
import { shownValue } from "./setting";

const idOf = (setting: Setting) => setting.key;
const most = 500;

export function SettingsScreen() {
  const { t } = useTranslation("admin");
  const { q } = installationRoute.useSearch();
  const navigate = useNavigate({ from: installationRoute.fullPath });
  const [open, setOpen] = useState<string | null>(null);
  const columns = useSettingColumns();
  const settings = useQuery({
    queryKey: ["admin", "settings"],
    queryFn: ({ signal }) => call(api.GET("/api/admin/settings", { params: { query: { limit: most } }, signal })),
    refetchInterval: 30_000,
  });
  const rows = useMemo(() => {
    const wanted = (q ?? "").toLowerCase();
    return (settings.data ?? []).filter((s) => `${s.key} ${s.description}`.toLowerCase().includes(wanted));
  }, [settings.data, q]);
  const filter = useCallback(
    (text: string) => void navigate({ to: ".", search: (s) => ({ ...s, q: text || undefined }), replace: true }),
    [navigate],
  );
  const chosen = settings.data?.find((setting) => setting.key === open);
  return (
    <>
      <PageHeader name={t("installation")} />
      <FilterBar
        query={q ?? ""}
        onQuery={filter}
        placeholder={t("findSetting")}
        onClear={q ? () => filter("") : undefined}
      />
      {settings.error && !settings.data ? (
        <ErrorPanel error={settings.error} onRetry={() => void settings.refetch()} />
      ) : (
        <Table
          label={t("installation")}
          rows={rows}
          columns={columns}
          rowId={idOf}
          onOpen={(setting) => setOpen(setting.key)}
          pending={settings.isPending}
        />
      )}
      {chosen ? <SettingDialog setting={chosen} onClose={() => setOpen(null)} /> : null}
    </>
  );
}

function useSettingColumns(): Column<Setting>[] {
  const { t } = useTranslation("admin");
  return useMemo(
    () => [
      {
        id: "key",
        header: t("key"),
        width: "minmax(14rem,1fr)",
        cell: (setting) => <span className="font-mono text-xs">{setting.key}</span>,
      },
      {
        id: "value",
        header: t("value"),
        width: "minmax(10rem,1fr)",
        cell: (setting) => (
          <UntrustedText
            text={setting.type === "secret" ? (setting.set ? "••••••••" : "") : shownValue(setting.value)}
            longest={200}
            className="font-mono text-xs"
          />
        ),
      },
      {
        id: "set",
        header: t("source"),
        width: "7rem",
        cell: (setting) => (setting.set ? <Badge tone="info">{t("stored")}</Badge> : <Badge>{t("default")}</Badge>),
      },
      {
        id: "description",
        header: t("description"),
        width: "minmax(16rem,2fr)",
        cell: (setting) => (
          <span className="text-soft" data-format title={setting.description}>
            {setting.description}
          </span>
        ),
      },
      {
        id: "by",
        header: t("changedBy"),
        width: "8rem",
        cell: (setting) => <UntrustedText text={setting.changed_by ?? ""} longest={128} />,
      },
      {
        id: "changed",
        header: t("changed"),
        width: "7rem",
        numeric: true,
        cell: (setting) => <Time at={setting.changed_at} />,
      },
    ],
    [t],
  );
}
