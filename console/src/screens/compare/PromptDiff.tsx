import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { useTranslation } from "react-i18next";
import { visible } from "@/lib/untrusted";
import { type Change, wordDiff } from "@/screens/samples/diff";
import { Reward } from "@/screens/samples/Reward";
import { UntrustedText } from "@/ui";
import { RunName } from "./Against";
import type { Prompt } from "./samples";
import type { Compared } from "./use-compared";

type Props = { prompt: Prompt; pair: [Compared, Compared] };

const longest = 4000;

// PromptDiff is a prompt and the responses of two runs to it. The words of one response that the other one lacks are marked.
export function PromptDiff({ prompt, pair: [base, other] }: Props) {
  const { t } = useTranslation("compare");
  const of = (run: Compared) => prompt.samples.find((sample) => sample.run_id === run.run.id);
  const [left, right] = [of(base), of(other)];
  const changes = useMemo(
    () => wordDiff(left?.assistant ?? "", right?.assistant ?? ""),
    [left?.assistant, right?.assistant],
  );
  return (
    <article aria-label={t("samples.prompt")} className="grid min-w-0 gap-2 rounded-lg border bg-card p-3">
      <h2 dir="auto" className="text-sm font-medium break-words whitespace-pre-wrap">
        <UntrustedText text={prompt.prompt} longest={longest} />
      </h2>
      <div className="grid gap-3 md:grid-cols-2">
        <Reply run={base} sample={left} changes={changes} lacks="added" />
        <Reply run={other} sample={right} changes={changes} lacks="removed" />
      </div>
    </article>
  );
}

type ReplyProps = {
  run: Compared;
  sample: Prompt["samples"][number] | undefined;
  changes: readonly Change[];
  // The words of this kind are not part of the response.
  lacks: "added" | "removed";
};

function Reply({ run, sample, changes, lacks }: ReplyProps) {
  const { t } = useTranslation("compare");
  return (
    <section className="min-w-0 border-t pt-1">
      <header className="flex h-7 items-center justify-between gap-2 text-xs">
        <RunName run={run} />
        {sample ? <Reward value={sample.reward} /> : null}
      </header>
      {sample?.assistant === null || sample === undefined ? (
        <p className="text-sm text-soft">{t("samples.withheld")}</p>
      ) : (
        <div dir="auto" className="text-sm break-words whitespace-pre-wrap">
          {changes
            .filter((change) => change.kind !== lacks)
            .map((change, at) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: the words keep their order
              <Words key={at} {...change} />
            ))}
        </div>
      )}
      {sample?.truncated ? (
        <Link
          to="/runs/$id/{-$tab}"
          params={{ id: run.run.id, tab: "samples" }}
          search={{ step: sample.step } as never}
          className="mt-1 inline-block text-xs text-accent hover:underline"
        >
          {t("samples.whole")}
        </Link>
      ) : null}
    </section>
  );
}

function Words({ kind, text }: Change) {
  const shown = visible(text, longest).text;
  if (kind === "same") return <span>{shown}</span>;
  if (kind === "added") return <ins className="rounded-sm bg-tint text-accent no-underline">{shown}</ins>;
  return <del className="rounded-sm bg-bad-tint text-bad no-underline">{shown}</del>;
}
