import { Ellipsis } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { visible } from "@/lib/untrusted";
import { ConfirmDialog, DropdownMenu, IconButton, MenuItem, MenuSeparator } from "@/ui";
import { type Fleet, useFleetsChanged } from "./api";
import { FleetDialog } from "./FleetDialog";

const states = ["active", "draining", "disabled"] as const;
type Target = (typeof states)[number];

export function FleetActions({ fleet, onRemoved }: { fleet: Fleet; onRemoved: () => void }) {
  const { t } = useTranslation("fleets");
  const changed = useFleetsChanged();
  const [open, setOpen] = useState<"edit" | "remove" | Target | null>(null);
  const params = { params: { path: { fleet_id: fleet.id } } };
  const close = () => setOpen(null);
  const name = visible(fleet.name, 64).text;
  const target = states.find((state) => state === open);
  return (
    <>
      <DropdownMenu trigger={<IconButton label={t("menu")} icon={<Ellipsis size={15} aria-hidden />} tip={false} />}>
        <MenuItem onSelect={() => setOpen("edit")}>{t("edit")}</MenuItem>
        {states
          .filter((state) => state !== fleet.state)
          .map((state) => (
            <MenuItem key={state} onSelect={() => setOpen(state)}>
              {t(`set.${state}`)}
            </MenuItem>
          ))}
        <MenuSeparator />
        <MenuItem danger onSelect={() => setOpen("remove")}>
          {t("remove")}
        </MenuItem>
      </DropdownMenu>
      {open === "edit" ? <FleetDialog fleet={fleet} onClose={close} /> : null}
      <ConfirmDialog
        open={target !== undefined}
        onOpenChange={close}
        title={target ? t(`setTitle.${target}`, { name }) : ""}
        description={target ? t(`setWhy.${target}`) : ""}
        action={target ? t(`set.${target}`) : ""}
        onConfirm={async () => {
          if (target) await call(api.PATCH("/api/fleets/{fleet_id}", { ...params, body: { state: target } }));
          await changed();
        }}
      />
      <ConfirmDialog
        open={open === "remove"}
        onOpenChange={close}
        title={t("removeTitle", { name })}
        description={t("removeWhy", { count: fleet.nodes })}
        action={t("remove")}
        danger
        onConfirm={async () => {
          await call(api.DELETE("/api/fleets/{fleet_id}", params));
          onRemoved();
          await changed();
        }}
      />
    </>
  );
}
