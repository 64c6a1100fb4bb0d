import { useTranslation } from "react-i18next";
import { ErrorPanel, PageHeader, SkeletonLines } from "@/ui";
import { useLocked, usePools } from "./api";
import { submitRoute } from "./area";
import { Catalog } from "./Catalog";
import { Composer } from "./Composer";
import { startOf } from "./start";

// SubmitScreen chooses a recipe, describes a job of it, and submits the job.
export function SubmitScreen() {
  const { recipe, version } = submitRoute.useSearch();
  return recipe ? <Begin key={`${recipe}@${version ?? ""}`} name={recipe} version={version} /> : <Catalog />;
}

// Begin reads what the first text of the submission is made of.
function Begin({ name, version }: { name: string; version: string | undefined }) {
  const { t } = useTranslation("submit");
  const { project } = submitRoute.useSearch() as { project?: string };
  const locked = useLocked(name, version);
  const pools = usePools();
  if (!locked.data || pools.isPending) {
    return (
      <>
        <PageHeader name={t("title")} />
        {locked.error ? (
          <ErrorPanel error={locked.error} onRetry={() => void locked.refetch()} />
        ) : (
          <SkeletonLines lines={8} className="max-w-3xl px-4 md:px-6" />
        )}
      </>
    );
  }
  const { recipe, lock } = locked.data;
  const pool = pools.data?.pools.find((p) => p.nodes_ready > 0) ?? pools.data?.pools[0];
  return <Composer recipe={recipe} start={startOf(recipe, lock, project, pool?.pool ?? "default")} />;
}
