import { useState } from "react";
import { useTranslation } from "react-i18next";
import { Button, ErrorNote, SkeletonLines, UntrustedText } from "@/ui";
import { useHparams } from "../api";
import { Fact, FactList } from "./Facts";
import { Section } from "./OverviewTab";

const few = 12;

// Hparams are the hyperparameters that the run reported, the first ones until the user wants all.
export function Hparams({ id, live }: { id: string; live: boolean }) {
  const { t } = useTranslation("job");
  const { data, error } = useHparams(id, live);
  const [all, setAll] = useState(false);
  const params = Object.entries(record(data?.params));
  return (
    <Section title={t("hparams.title")}>
      {error && !data ? (
        <ErrorNote error={error} />
      ) : !data ? (
        <SkeletonLines lines={3} />
      ) : params.length === 0 ? (
        <p className="text-soft">{t("hparams.none")}</p>
      ) : (
        <FactList>
          {params.slice(0, all ? undefined : few).map(([name, value]) => (
            <Fact key={name} name={<UntrustedText text={name} longest={128} />}>
              <UntrustedText text={shown(value)} longest={400} className="tabular" />
            </Fact>
          ))}
        </FactList>
      )}
      {params.length > few ? (
        <Button variant="quiet" size="sm" className="mt-1" onClick={() => setAll(!all)}>
          {all ? t("hparams.fewer") : t("hparams.all", { count: params.length })}
        </Button>
      ) : null}
    </Section>
  );
}

export function record(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
}

export function shown(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}
