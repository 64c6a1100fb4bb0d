import { useState } from "react";
import { useTranslation } from "react-i18next";
import { api, call } from "@/api/client";
import { problemOf } from "@/api/error";
import { Button, CodeBlock, Dialog, Field, Input, Select } from "@/ui";
import { FormDialog } from "@/ui/FormDialog";
import { type Fleet, type JoinToken, joinCommand, useFleetsChanged } from "./api";

const lifetimes = ["900", "3600", "86400", "604800"] as const;

// MintToken creates a join token and shows the command with it once. Nothing keeps the token after that.
export function MintToken({ fleet, onClose }: { fleet: Fleet; onClose: () => void }) {
  const { t } = useTranslation("fleets");
  const changed = useFleetsChanged();
  const [ttl, setTtl] = useState<(typeof lifetimes)[number]>("3600");
  const [uses, setUses] = useState("1");
  const [token, setToken] = useState<JoinToken | null>(null);
  if (token) return <Minted token={token} onClose={onClose} />;
  const save = async () => {
    const body = { ttl_s: Number(ttl), max_uses: Number(uses) };
    setToken(
      await call(api.POST("/api/fleets/{fleet_id}/join-tokens", { params: { path: { fleet_id: fleet.id } }, body })),
    );
    await changed();
  };
  return (
    <FormDialog
      title={t("mint")}
      description={t("mintWhy")}
      action={t("createAction")}
      onClose={() => undefined}
      onCancel={onClose}
      onSave={save}
    >
      {(error) => (
        <>
          <Field label={t("lifetime")} error={problemOf(error, "body", "ttl_s")}>
            {(control) => (
              <Select
                id={control.id}
                value={ttl}
                onChange={setTtl}
                options={lifetimes.map((value) => ({ value, label: t(`lifetimes.${value}`) }))}
              />
            )}
          </Field>
          <Field label={t("maxUses")} hint={t("maxUsesHint")} error={problemOf(error, "body", "max_uses")}>
            {(control) => (
              <Input
                {...control}
                type="number"
                required
                min={1}
                max={10_000}
                value={uses}
                onChange={(e) => setUses(e.target.value)}
              />
            )}
          </Field>
        </>
      )}
    </FormDialog>
  );
}

function Minted({ token, onClose }: { token: JoinToken; onClose: () => void }) {
  const { t } = useTranslation("fleets");
  return (
    <Dialog
      open
      sticky
      size="md"
      onOpenChange={(open) => !open && onClose()}
      title={t("minted")}
      description={t("mintedWhy")}
      footer={
        <Button variant="primary" onClick={onClose}>
          {t("done")}
        </Button>
      }
    >
      <CodeBlock code={joinCommand(token.command, token.token ?? "")} label={t("joinCommand")} />
    </Dialog>
  );
}
