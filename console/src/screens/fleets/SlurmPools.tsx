import { useTranslation } from "react-i18next";
import { visible } from "@/lib/untrusted";
import { Badge, Button, Nothing, Time, UntrustedText } from "@/ui";
import { cell, SlurmTable } from "./SlurmTable";
import type { SlurmRow } from "./slurm";

const narrow = "inline-block max-w-44 truncate align-bottom";
const tones = { passed: "good", failed: "bad", exposed: "bad", untested: "info", unset: "warn" } as const;

// SlurmPools is the table of a fleet's pools: how their jobs run, and the result of the test of each. Below a pool that
// cannot be used stands why, and what to do.
export function SlurmPools({ rows, onEdit }: { rows: readonly SlurmRow[]; onEdit?: (row: SlurmRow) => void }) {
  const { t } = useTranslation("fleets");
  const head = [
    t("slurm.pool"),
    t("slurm.partition"),
    t("slurm.account"),
    t("slurm.qos"),
    t("slurm.user"),
    t("slurm.folder"),
    t("slurm.test"),
    t("slurm.isolation"),
    ...(onEdit ? [t("slurm.change")] : []),
  ];
  return (
    <SlurmTable
      title={t("pools")}
      empty={rows.length === 0 ? t("slurm.noPools") : null}
      head={head.map((name) => ({ name }))}
    >
      {rows.map((row) => (
        <tbody key={row.pool} className="border-b last:border-b-0">
          <PoolRow row={row} onEdit={onEdit} />
          {row.result === "passed" || row.result === "untested" ? null : (
            <tr>
              <td colSpan={head.length} className="px-3 pb-2 text-xs">
                <Remedy row={row} />
              </td>
            </tr>
          )}
        </tbody>
      ))}
    </SlurmTable>
  );
}

function PoolRow({ row, onEdit }: { row: SlurmRow; onEdit?: (row: SlurmRow) => void }) {
  const { t } = useTranslation("fleets");
  const set = row.settings;
  return (
    <tr>
      <th scope="row" className={`${cell} font-medium`}>
        <UntrustedText text={row.pool} longest={64} className={narrow} />
      </th>
      {[set?.partition, set?.account, set?.qos, set?.user, set?.folder].map((value, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the columns have a fixed order
        <td key={at} className={cell}>
          {value ? <UntrustedText text={value} longest={80} className={`${narrow} font-mono text-xs`} /> : <Nothing />}
        </td>
      ))}
      <td className={cell}>
        <Badge tone={tones[row.result]}>{t(`slurm.results.${row.result}`)}</Badge>
        {row.testedAt ? (
          <span className="ml-2 text-xs text-soft">
            <Time at={row.testedAt} />
          </span>
        ) : null}
      </td>
      <td className={cell}>
        {row.isolation ? t(`boundaries.${row.isolation}`, { ns: "cluster", defaultValue: row.isolation }) : <Nothing />}
      </td>
      {onEdit ? (
        <td className={cell}>
          <Button
            size="sm"
            onClick={() => onEdit(row)}
            aria-label={t("slurm.changeOf", { pool: visible(row.pool, 64).text })}
          >
            {t("slurm.change")}
          </Button>
        </td>
      ) : null}
    </tr>
  );
}

// Remedy states why a pool cannot be used, and what to do.
function Remedy({ row }: { row: SlurmRow }) {
  const { t } = useTranslation("fleets");
  return (
    <>
      {row.problem ? (
        <UntrustedText text={row.problem} longest={1024} className="mr-2 font-mono whitespace-pre-wrap text-bad" />
      ) : null}
      <span className="text-soft">{t(`slurm.remedies.${row.result}`, { pool: visible(row.pool, 64).text })}</span>
    </>
  );
}
