import { useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { cx } from "@/lib/cx";
import { formatNumber } from "@/lib/format";
import { useFormats } from "@/lib/prefs";
import { visible } from "@/lib/untrusted";
import { Button, CopyButton, UntrustedText } from "@/ui";

const first = 20_000;
const step = 200_000;
const roles = new Set(["user", "assistant", "env", "system", "tool"]);

type Props = { role: string; text: string; main?: boolean };

// TurnText is one turn of a conversation, as plain text. A long text is shown piece by piece.
export function TurnText({ role, text, main = false }: Props) {
  const { t } = useTranslation("samples");
  const { tag } = useFormats();
  const [length, setLength] = useState(first);
  const shown = useMemo(() => visible(text, length), [text, length]);
  const left = text.length - length;
  return (
    <section className={cx("min-w-0 rounded-lg border", main ? "border-accent/40 bg-card" : "bg-sunken")}>
      <header className="flex h-7 items-center justify-between pr-1 pl-3">
        <h3 className="text-2xs font-medium text-soft">
          {roles.has(role) ? t(`role.${role}`) : <UntrustedText text={role} longest={40} />}
        </h3>
        <CopyButton text={text} />
      </header>
      <div dir="auto" className="px-3 pb-2.5 text-sm break-words whitespace-pre-wrap">
        {shown.text}
        {shown.cut ? "…" : null}
      </div>
      {left > 0 ? (
        <div className="px-3 pb-3">
          <Button size="sm" onClick={() => setLength((before) => before + step)}>
            {t("more", { count: left, shown: formatNumber(left, tag) })}
          </Button>
        </div>
      ) : null}
    </section>
  );
}
