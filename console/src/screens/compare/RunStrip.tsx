import { Link } from "@tanstack/react-router";
import { Pin, X } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { cx } from "@/lib/cx";
import { Button, IconButton, StateBadge, UntrustedText } from "@/ui";
import { Swatch } from "./Swatch";
import type { Compared } from "./use-compared";

type Props = {
  runs: readonly Compared[];
  base: string | undefined;
  onBase: (id: string) => void;
  onRemove: (id: string) => void;
};

// More runs than this are listed on request.
const few = 12;

// RunStrip lists the compared runs with their colours. One of them is the baseline.
export function RunStrip({ runs, base, onBase, onRemove }: Props) {
  const { t } = useTranslation("compare");
  const [whole, setWhole] = useState(false);
  const shown = whole || runs.length <= few ? runs : runs.slice(0, few);
  return (
    <ul aria-label={t("runs")} className="flex flex-wrap gap-1.5">
      {shown.map(({ id, run, ink }) => (
        <li
          key={id}
          className={cx(
            "flex h-8 max-w-full items-center gap-2 rounded-md border bg-card pr-1 pl-2.5",
            id === base && "border-accent",
          )}
        >
          <Swatch ink={ink} />
          <Link
            to="/runs/$id/{-$tab}"
            params={{ id, tab: undefined }}
            className="min-w-0 truncate text-sm font-medium hover:underline"
            title={id}
          >
            <UntrustedText text={run.name} longest={60} />
          </Link>
          <span className="text-xs max-sm:hidden">
            <StateBadge state={run.state} />
          </span>
          {id === base ? (
            <span className="px-1 text-xs text-accent">{t("baseline")}</span>
          ) : (
            <IconButton
              label={t("makeBaseline", { name: run.name })}
              icon={<Pin size={13} aria-hidden />}
              onClick={() => onBase(id)}
              className="size-6"
            />
          )}
          <IconButton
            label={t("remove", { name: run.name })}
            icon={<X size={13} aria-hidden />}
            onClick={() => onRemove(id)}
            className="size-6"
          />
        </li>
      ))}
      {shown.length < runs.length ? (
        <li>
          <Button variant="quiet" onClick={() => setWhole(true)}>
            {t("moreLines", { count: runs.length - shown.length })}
          </Button>
        </li>
      ) : null}
    </ul>
  );
}
