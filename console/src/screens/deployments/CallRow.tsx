import { ChevronDown } from "lucide-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { cx } from "@/lib/cx";
import { Badge, Bytes, IconButton, Nothing, Num, Time, UntrustedText } from "@/ui";
import type { Tone } from "@/ui/Badge";
import { CopyId } from "@/ui/CopyId";
import { Fact, Facts } from "@/ui/Facts";
import type { Call } from "./deployment";

const tones: Record<string, Tone> = { ok: "good", client_closed: "neutral", client_error: "warn" };

export function CallRow({ row }: { row: Call }) {
  const { t } = useTranslation("deployments");
  const [open, setOpen] = useState(false);
  const tone = tones[row.outcome] ?? "bad";
  return (
    <>
      <tr className="h-8 whitespace-nowrap hover:bg-hover">
        <td className="px-3">
          <Time at={row.at} />
        </td>
        <td className="px-3 tabular">{row.status}</td>
        <td className="px-3">
          <Badge tone={tone}>{t(`outcomes.${row.outcome}`, { defaultValue: row.outcome })}</Badge>
        </td>
        <td className="max-w-72 truncate px-3 font-mono text-xs">
          {row.method} <UntrustedText text={row.path} longest={200} />
        </td>
        <td className="px-3 tabular">{row.revision_number > 0 ? row.revision_number : <Nothing />}</td>
        <td className="max-w-40 truncate px-3">
          <UntrustedText text={row.token_name} longest={128} />
        </td>
        <td className="px-3 text-right">
          <Num value={row.ttft_ms} digits={0} unit={row.ttft_ms === null ? undefined : t("ms")} />
        </td>
        <td className="px-3 text-right">
          <Num value={row.duration_ms} digits={0} unit={t("ms")} />
        </td>
        <td className="px-3 text-right">
          <Num value={row.prompt_tokens} /> / <Num value={row.completion_tokens} />
        </td>
        <td className="px-2 text-right">
          <IconButton
            label={t("showCall", { id: row.request_id })}
            tip={false}
            aria-expanded={open}
            onClick={() => setOpen(!open)}
            className="size-6"
            icon={<ChevronDown size={14} aria-hidden className={cx(open && "rotate-180")} />}
          />
        </td>
      </tr>
      {open ? (
        <tr>
          <td colSpan={10} className="bg-paper px-3 py-2">
            <Detail row={row} />
          </td>
        </tr>
      ) : null}
    </>
  );
}

function Detail({ row }: { row: Call }) {
  const { t } = useTranslation("deployments");
  const text = (value: string | null) => (value ? <UntrustedText text={value} longest={256} /> : <Nothing />);
  return (
    <Facts>
      <Fact label={t("requestId")}>
        <CopyId id={row.request_id} />
      </Fact>
      <Fact label={t("time")}>
        <Time at={row.at} absolute />
      </Fact>
      <Fact label={t("requestedModel")}>{text(row.requested_model)}</Fact>
      <Fact label={t("responseModel")}>{text(row.response_model)}</Fact>
      <Fact label={t("finish")}>{text(row.finish_reason)}</Fact>
      <Fact label={t("stream")}>{row.stream ? t("yes") : t("no")}</Fact>
      <Fact label={t("sent")}>
        <Bytes value={row.request_bytes} />
      </Fact>
      <Fact label={t("received")}>
        <Bytes value={row.response_bytes} />
      </Fact>
      <Fact label={t("replica")}>{row.replica_id ? <CopyId id={row.replica_id} /> : <Nothing />}</Fact>
    </Facts>
  );
}
