import { ArrowUpRight } from "lucide-react";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { CodeBlock } from "./CodeBlock";

type Props = {
  // What is shown here, why there is nothing yet, one command that changes that, and where to read more.
  title: string;
  why: ReactNode;
  command?: string;
  docs?: string;
  action?: ReactNode;
};

export function EmptyState({ title, why, command, docs, action }: Props) {
  const { t } = useTranslation();
  return (
    <div className="mx-auto grid w-full max-w-lg grid-cols-[minmax(0,1fr)] gap-3 px-4 py-14">
      <div>
        <h2 className="text-lg font-semibold tracking-tight">{title}</h2>
        <p className="mt-1 text-sm text-soft">{why}</p>
      </div>
      {command ? <CodeBlock code={command} label={t("command")} /> : null}
      <div className="flex items-center gap-3">
        {action}
        {docs ? (
          <a
            href={docs}
            className="inline-flex items-center gap-1 text-sm text-accent hover:text-accent-deep hover:underline"
          >
            {t("readDocs")}
            <ArrowUpRight size={13} aria-hidden />
          </a>
        ) : null}
      </div>
    </div>
  );
}
