import { X } from "lucide-react";
import { type FormEvent, useState } from "react";
import { useTranslation } from "react-i18next";
import { Field, Input, UntrustedText } from "@/ui";

type Props = { name: string; words: string[]; onChange: (words: string[]) => void };

// WordFilter is a filter of several words, such as the tags that a run must have. Enter adds the word that is typed.
export function WordFilter({ name, words, onChange }: Props) {
  const { t } = useTranslation("runs");
  const [text, setText] = useState("");
  const add = (event: FormEvent) => {
    event.preventDefault();
    const word = text.trim();
    if (word !== "" && !words.includes(word)) onChange([...words, word].slice(-16));
    setText("");
  };
  return (
    <form onSubmit={add} className="grid gap-1.5">
      <Field label={name}>
        {(control) => (
          <Input
            {...control}
            placeholder={t("addWord")}
            value={text}
            maxLength={256}
            enterKeyHint="done"
            onChange={(event) => setText(event.target.value)}
          />
        )}
      </Field>
      {words.length > 0 ? (
        <div className="flex flex-wrap gap-1">
          {words.map((word) => (
            <button
              key={word}
              type="button"
              aria-label={t("remove", { name, word })}
              onClick={() => onChange(words.filter((w) => w !== word))}
              className="inline-flex h-7 max-w-full items-center gap-1 rounded-md bg-tint px-2 text-xs text-accent hover:opacity-85"
            >
              <UntrustedText text={word} longest={60} className="truncate" />
              <X size={12} aria-hidden className="shrink-0" />
            </button>
          ))}
        </div>
      ) : null}
    </form>
  );
}
