import { useTranslation } from "react-i18next";
import { Button, ErrorNote, Spinner } from "@/ui";
import { DiffTable } from "@/ui/DiffTable";
import { useLocked } from "./api";
import { type RecipeOfSpec, relocked } from "./relocked";

type Props = { spec: Record<string, unknown>; onRelock: (recipe: RecipeOfSpec) => void };

// Relock shows how the recipe of the submission differs from the newest one in the catalog, and takes that one.
export function Relock({ spec, onRelock }: Props) {
  const { t } = useTranslation("submit");
  const recipe = spec.recipe as { name?: unknown } | null | undefined;
  const name = typeof recipe?.name === "string" ? recipe.name : "";
  const { data, error } = useLocked(name);
  if (error) return <ErrorNote error={error} />;
  if (!data) return <Spinner />;
  const next = relocked(recipe, data);
  if (next.rows.length === 0) return null;
  return (
    <>
      <DiffTable rows={next.rows} name={t("lock.name")} before={t("lock.before")} after={t("lock.after")} />
      <div>
        <Button size="sm" onClick={() => onRelock(next.recipe)}>
          {t("lock.again")}
        </Button>
      </div>
    </>
  );
}
