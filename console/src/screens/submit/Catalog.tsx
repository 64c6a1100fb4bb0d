import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { useTranslation } from "react-i18next";
import { Badge, EmptyState, ErrorPanel, PageBody, PageHeader, SkeletonLines, UntrustedText } from "@/ui";
import { useRecipes } from "./api";
import { newest, type Recipe } from "./start";

// Catalog lists the recipes from which a job can be made.
export function Catalog() {
  const { t } = useTranslation("submit");
  const { data, error, refetch } = useRecipes();
  const recipes = useMemo(() => newest(data ?? []), [data]);
  return (
    <>
      <PageHeader name={t("title")}>
        <p className="text-sm text-soft">{t("choose")}</p>
      </PageHeader>
      {error && !data ? (
        <ErrorPanel error={error} onRetry={() => void refetch()} />
      ) : !data ? (
        <SkeletonLines lines={6} className="max-w-3xl px-4 md:px-6" />
      ) : recipes.length === 0 ? (
        <EmptyState title={t("noRecipes")} why={t("noRecipesWhy")} docs="/docs" />
      ) : (
        <PageBody>
          <ul className="grid gap-3 md:grid-cols-2 xl:grid-cols-3">
            {recipes.map((recipe) => (
              <Card key={recipe.name} recipe={recipe} />
            ))}
          </ul>
        </PageBody>
      )}
    </>
  );
}

function Card({ recipe }: { recipe: Recipe }) {
  const { t } = useTranslation("submit");
  return (
    <li className="relative grid content-start gap-1.5 rounded-lg border bg-card p-4 hover:border-edge">
      <h2 className="text-base font-semibold">
        <Link to="/submit" search={{ recipe: recipe.name }} className="after:absolute after:inset-0">
          <UntrustedText text={recipe.title} longest={128} />
        </Link>
      </h2>
      <p className="font-mono text-xs text-soft">
        <UntrustedText text={recipe.name} longest={128} /> {recipe.version}
      </p>
      <p className="line-clamp-4 text-sm text-soft">
        <UntrustedText text={recipe.description} longest={600} />
      </p>
      <p className="mt-1 flex flex-wrap gap-1.5">
        {recipe.project ? (
          <Badge>
            <UntrustedText text={t("ofProject", { project: recipe.project })} longest={128} />
          </Badge>
        ) : null}
        {recipe.resumable ? <Badge tone="good">{t("resumable")}</Badge> : null}
        {recipe.trusted ? <Badge>{t("trusted")}</Badge> : null}
        {recipe.framework ? (
          <Badge>
            <UntrustedText text={recipe.framework.name} longest={64} />
          </Badge>
        ) : null}
      </p>
    </li>
  );
}
