import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { api, call, type Schemas } from "@/api/client";
import { jumpTo } from "@/app/nav";
import { Badge, ErrorNote, SkeletonLines, Time, UntrustedText } from "@/ui";
import { Empty, Section } from "./Section";

const shown = 5;

export function RecentModels({ project }: { project: string | undefined }) {
  const { t } = useTranslation("overview");
  const { data: models, error } = useQuery({
    queryKey: ["models", "recent", project],
    queryFn: ({ signal }) => call(api.GET("/api/models", { params: { query: { limit: shown, project } }, signal })),
    refetchInterval: 30_000,
  });
  return (
    <Section title={t("models")}>
      {error && !models ? (
        <ErrorNote error={error} className="m-3" />
      ) : !models ? (
        <SkeletonLines lines={3} className="px-4 py-3" />
      ) : models.length === 0 ? (
        <Empty>{t("noModels")}</Empty>
      ) : (
        <ul className="divide-y">
          {models.map((model) => (
            <Row key={model.id} model={model} />
          ))}
        </ul>
      )}
    </Section>
  );
}

function Row({ model }: { model: Schemas["Model"] }) {
  const { t } = useTranslation("overview");
  const to = jumpTo(model.id);
  const name = <UntrustedText text={model.name} longest={128} className="truncate font-medium" />;
  return (
    <li className="grid h-8 grid-cols-[minmax(0,1fr)_auto_5rem] items-center gap-x-3 px-4 text-sm sm:grid-cols-[minmax(0,1.4fr)_minmax(0,1fr)_minmax(0,0.6fr)_5rem]">
      {to ? (
        <Link to={to} className="flex min-w-0 hover:underline">
          {name}
        </Link>
      ) : (
        <span className="flex min-w-0">{name}</span>
      )}
      <span className="flex min-w-0 items-center gap-1.5">
        {model.latest_version === null ? (
          <span className="text-soft">{t("noVersion")}</span>
        ) : (
          t("version", { number: model.latest_version })
        )}
        {model.aliases.production ? <Badge tone="good">production</Badge> : null}
      </span>
      <UntrustedText text={model.project} className="hidden truncate text-soft sm:block" />
      <span className="text-right text-soft">
        <Time at={model.created_at} />
      </span>
    </li>
  );
}
