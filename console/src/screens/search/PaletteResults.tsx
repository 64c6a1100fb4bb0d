import { Command } from "cmdk";
import { useTranslation } from "react-i18next";
import { UntrustedText } from "@/ui/UntrustedText";
import { pathOf, useFound, useSettled } from "./found";

const item =
  "flex h-8 cursor-pointer items-center gap-2.5 rounded-md px-2 text-sm select-none data-[selected=true]:bg-hover";

// PaletteResults are the objects that the text of the palette finds, and the way to all of them. The palette does not
// filter them: their value contains the text.
export default function PaletteResults({ text, onGo }: { text: string; onGo: (path: string) => void }) {
  const { t } = useTranslation("search");
  const settled = useSettled(text.trim());
  const { data, isPlaceholderData } = useFound(settled, { limit: 8 });
  const results = (data?.results ?? []).flatMap((result) => {
    const to = pathOf(result);
    return to ? [{ ...result, to }] : [];
  });
  return (
    <Command.Group
      forceMount
      heading={t("title")}
      className="[&_[cmdk-group-heading]]:px-2 [&_[cmdk-group-heading]]:pt-2 [&_[cmdk-group-heading]]:pb-1 [&_[cmdk-group-heading]]:text-2xs [&_[cmdk-group-heading]]:text-soft"
    >
      {data && !isPlaceholderData && results.length === 0 ? (
        <p className="px-2 py-1.5 text-sm text-soft">{t("nothing")}</p>
      ) : null}
      {results.map((result) => (
        <Command.Item
          key={result.id}
          forceMount
          value={`${text} ${result.id}`}
          onSelect={() => onGo(result.to)}
          className={item}
        >
          <span className="w-24 shrink-0 truncate text-xs text-soft">{t(`kinds.${result.kind}`)}</span>
          <span className="min-w-0 flex-1 truncate">
            <UntrustedText text={result.title} longest={128} />
          </span>
          {result.project && result.kind !== "project" ? (
            <span className="max-w-32 truncate text-xs text-soft">
              <UntrustedText text={result.project} longest={40} />
            </span>
          ) : null}
        </Command.Item>
      ))}
      <Command.Item
        forceMount
        value={`${text} search`}
        onSelect={() => onGo(`/search?${new URLSearchParams({ q: text.trim() })}`)}
        className={item}
      >
        <span className="min-w-0 flex-1 truncate">{t("all", { text: text.trim() })}</span>
      </Command.Item>
    </Command.Group>
  );
}
