import { useState } from "react";
import { useTranslation } from "react-i18next";
import { CodeBlock, Tabs } from "@/ui";
import { type Language, languages, snippet } from "./snippets";

const names: Record<Language, string> = { curl: "curl", python: "Python", javascript: "JavaScript" };

export function Snippets({ url, token }: { url: string; token: string | null }) {
  const { t } = useTranslation("deployments");
  const [language, setLanguage] = useState<Language>("curl");
  return (
    <>
      <Tabs<Language>
        label={t("language")}
        value={language}
        onChange={setLanguage}
        tabs={languages.map((value) => ({
          value,
          label: <span className="font-mono text-xs">{names[value]}</span>,
          content: <CodeBlock code={snippet(value, url, token)} label={t("snippet", { language: names[value] })} />,
        }))}
      />
      <p className="mt-2 text-xs text-soft">{token ? t("tokenInside") : t("tokenOutside")}</p>
    </>
  );
}
