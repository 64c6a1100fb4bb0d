import { Ellipsis } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { errorMessage } from "@/api/message";
import { visible } from "@/lib/untrusted";
import { Button, ConfirmDialog, DropdownMenu, Field, IconButton, Input, MenuItem, toast } from "@/ui";
import { FormDialog } from "@/ui/FormDialog";
import { type Node, useClusterChanged } from "./api";
import { DrainDialog } from "./DrainDialog";

const longestReason = 1024;

// NodeActions are what admins may do with a node. A node that gets no new work can be opened again.
export function NodeActions({ node, onRemoved }: { node: Node; onRemoved: () => void }) {
  const { t } = useTranslation("cluster");
  const [open, setOpen] = useState<"cordon" | "drain" | "remove" | null>(null);
  const [reason, setReason] = useState("");
  const changed = useClusterChanged();
  const params = { params: { path: { node_id: node.id } } };
  const closed = ["cordoned", "draining", "drained"].includes(node.state);
  const close = () => setOpen(null);
  const name = visible(node.name, 64).text;
  const uncordon = async () => {
    try {
      await call(api.POST("/api/cluster/nodes/{node_id}/uncordon", params));
    } catch (error) {
      toast.error(errorMessage(t, error));
    }
    await changed();
  };
  return (
    <>
      {closed ? (
        <Button onClick={() => void uncordon()}>{t("uncordon")}</Button>
      ) : (
        <Button onClick={() => setOpen("cordon")}>{t("cordon")}</Button>
      )}
      <Button onClick={() => setOpen("drain")}>{t("drainAction")}</Button>
      <DropdownMenu trigger={<IconButton label={t("menu")} icon={<Ellipsis size={15} aria-hidden />} tip={false} />}>
        <MenuItem danger onSelect={() => setOpen("remove")}>
          {t("remove")}
        </MenuItem>
      </DropdownMenu>
      {open === "cordon" ? (
        <FormDialog
          title={t("cordonTitle", { name })}
          description={t("cordonWhy")}
          action={t("cordon")}
          onClose={close}
          onSave={async () => {
            await call(
              api.POST("/api/cluster/nodes/{node_id}/cordon", { ...params, body: { reason: reason.trim() || null } }),
            );
            await changed();
          }}
        >
          {() => (
            <Field label={t("adminReason")} hint={t("reasonHint")}>
              {(control) => (
                <Input
                  {...control}
                  autoFocus
                  maxLength={longestReason}
                  value={reason}
                  onChange={(e) => setReason(e.target.value)}
                />
              )}
            </Field>
          )}
        </FormDialog>
      ) : null}
      {open === "drain" ? <DrainDialog node={node} name={name} onClose={close} /> : null}
      <ConfirmDialog
        open={open === "remove"}
        onOpenChange={close}
        title={t("removeTitle", { name })}
        description={t("removeWhy", { count: node.works })}
        action={t("remove")}
        danger
        onConfirm={async () => {
          await call(api.DELETE("/api/cluster/nodes/{node_id}", params));
          onRemoved();
          await changed();
        }}
      />
    </>
  );
}
