import { Link } from "@tanstack/react-router";
import { Archive, ArchiveRestore, ArrowUpToLine, Ellipsis, Server } from "lucide-react";
import { lazy, Suspense, useState } from "react";
import { useTranslation } from "react-i18next";
import type { Model, ModelVersion } from "@/api/models";
import { Button, buttonClass, DropdownMenu, IconButton, MenuItem } from "@/ui";
import type { Act } from "./api";

const ActDialog = lazy(() => import("./ActDialog"));
const DeployDialog = lazy(() => import("./DeployDialog"));

type Props = { model: Model; version: ModelVersion; etag: string | null };

export function Actions({ model, version, etag }: Props) {
  const { t } = useTranslation("models");
  const [act, setAct] = useState<Act | null>(null);
  const [deploying, setDeploying] = useState(false);
  const archived = version.lifecycle === "archived";
  const usable = version.status === "ready" && !archived;
  return (
    <>
      {usable && version.lifecycle !== "production" ? (
        <Button icon={<ArrowUpToLine size={13} aria-hidden />} onClick={() => setAct("promote")}>
          {t("act.promote")}
        </Button>
      ) : null}
      {usable ? (
        <Link to="/playground" search={{ model: model.id, version: version.version }} className={buttonClass()}>
          {t("try")}
        </Link>
      ) : null}
      {usable ? (
        <Button variant="primary" icon={<Server size={13} aria-hidden />} onClick={() => setDeploying(true)}>
          {t("deploy")}
        </Button>
      ) : null}
      {version.status === "ready" ? (
        <DropdownMenu
          trigger={
            <IconButton
              label={t("menu")}
              tip={false}
              icon={<Ellipsis size={16} aria-hidden />}
              className="size-8 border border-line bg-card"
            />
          }
        >
          {archived ? (
            <MenuItem icon={<ArchiveRestore size={14} aria-hidden />} onSelect={() => setAct("unarchive")}>
              {t("act.unarchive")}
            </MenuItem>
          ) : (
            <MenuItem danger icon={<Archive size={14} aria-hidden />} onSelect={() => setAct("archive")}>
              {t("act.archive")}
            </MenuItem>
          )}
        </DropdownMenu>
      ) : null}
      <Suspense fallback={null}>
        {act ? <ActDialog act={act} model={model} version={version} etag={etag} onClose={() => setAct(null)} /> : null}
        {deploying ? <DeployDialog model={model} version={version} onClose={() => setDeploying(false)} /> : null}
      </Suspense>
    </>
  );
}
