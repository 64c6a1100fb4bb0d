import { type ReactNode, useState } from "react";
import { useTranslation } from "react-i18next";
import { Button, ErrorNote, Input, SkeletonLines, Time, UntrustedText } from "@/ui";
import { Fact, FactList } from "../overview/Facts";
import { record, shown } from "../overview/Hparams";
import { Section } from "../overview/OverviewTab";
import { useEnvironment, useNodes } from "./hardware";

const few = 15;

// Environment is the software that the run reported, and the machines it ran on.
export function Environment({ id }: { id: string }) {
  const { t } = useTranslation("job");
  const { data, error } = useEnvironment(id);
  if (error && !data) return <ErrorNote error={error} />;
  if (!data) return <SkeletonLines lines={3} />;
  if (data.attempt === null) return <p className="text-soft">{t("environment.none")}</p>;
  const git = record(data.git);
  const facts: [string, ReactNode][] = [
    ["python", data.python],
    ["cuda", data.cuda],
    ["driver", data.driver],
    ["nccl", data.nccl],
    ["os", data.os],
    ["gpus", data.gpus ? shown(data.gpus) : null],
    [
      "git",
      git.commit ? t(git.dirty ? "environment.dirty" : "environment.clean", { commit: shown(git.commit) }) : null,
    ],
  ];
  return (
    <div className="grid items-start gap-4 lg:grid-cols-2">
      <FactList>
        {facts.map(([name, value]) =>
          value ? (
            <Fact key={name} name={t(`environment.${name}`)}>
              <UntrustedText text={String(value)} longest={400} />
            </Fact>
          ) : null,
        )}
        <Fact name={t("environment.reported")}>
          <Time at={data.reported_at} />
        </Fact>
      </FactList>
      <Packages packages={record(data.packages)} />
      <Nodes id={id} />
    </div>
  );
}

function Packages({ packages }: { packages: Record<string, unknown> }) {
  const { t } = useTranslation("job");
  const [query, setQuery] = useState("");
  const [all, setAll] = useState(false);
  const names = Object.keys(packages)
    .filter((name) => name.toLowerCase().includes(query.toLowerCase()))
    .sort();
  if (Object.keys(packages).length === 0) return null;
  return (
    <div>
      <Input
        aria-label={t("environment.find")}
        placeholder={t("environment.find")}
        value={query}
        onChange={(event) => setQuery(event.target.value)}
        className="mb-2"
      />
      <FactList>
        {names.slice(0, all ? undefined : few).map((name) => (
          <Fact key={name} name={<UntrustedText text={name} longest={64} />}>
            <UntrustedText text={shown(packages[name])} longest={64} className="tabular" />
          </Fact>
        ))}
      </FactList>
      {names.length > few ? (
        <Button variant="quiet" size="sm" onClick={() => setAll(!all)}>
          {all ? t("hparams.fewer") : t("hparams.all", { count: names.length })}
        </Button>
      ) : null}
    </div>
  );
}

function Nodes({ id }: { id: string }) {
  const { t } = useTranslation("job");
  const { data } = useNodes(id);
  if (!data || data.length === 0) return null;
  return (
    <Section title={t("environment.nodes")}>
      <FactList>
        {data.map((node) => (
          <Fact key={node.rank} name={<UntrustedText text={node.host} longest={64} />}>
            <UntrustedText
              text={[node.cpu, node.gpus]
                .filter((v) => v !== null)
                .map(shown)
                .join(" · ")}
              longest={400}
            />
          </Fact>
        ))}
      </FactList>
    </Section>
  );
}
