import { useTranslation } from "react-i18next";
import { plain } from "@/lib/untrusted";
import { CopyButton, Field, Textarea } from "@/ui";
import type { Problem } from "./document";

type Props = { text: string; problem: Problem | null; onChange: (text: string) => void };

// YamlView is the text of a submission, exactly as it is sent.
export function YamlView({ text, problem, onChange }: Props) {
  const { t } = useTranslation("submit");
  const error = problem
    ? problem.message === ""
      ? t("notMap")
      : t("notYaml", { line: problem.line, message: plain(problem.message) })
    : null;
  return (
    <div className="relative">
      <Field label={t("spec")} hint={t("specHint")} error={error}>
        {(control) => (
          <Textarea
            {...control}
            spellCheck={false}
            autoCapitalize="off"
            className="h-[65vh] min-h-80 resize-y font-mono text-xs leading-5"
            value={text}
            onChange={(event) => onChange(event.target.value)}
          />
        )}
      </Field>
      <div className="absolute -top-1 right-0">
        <CopyButton text={text} />
      </div>
    </div>
  );
}
