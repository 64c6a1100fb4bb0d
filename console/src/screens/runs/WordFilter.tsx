import { X } from "lucide-react";
import { type FormEvent, useState } from "react";
import { useTranslation } from "react-i18next";
import { Input, UntrustedText } from "@/ui";

type Props = { name: string; words: string[]; onChange: (words: string[]) => void };

// WordFilter is a filter of several words, such as the tags that a run must have.
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
    <>
      {words.map((word) => (
        <button
          key={word}
          type="button"
          aria-label={t("remove", { name, word })}
          onClick={() => onChange(words.filter((w) => w !== word))}
          className="inline-flex h-7 max-w-48 items-center gap-1 rounded-md bg-tint px-2 text-xs text-accent hover:opacity-85"
        >
          <UntrustedText text={word} longest={60} className="truncate" />
          <X size={12} aria-hidden className="shrink-0" />
        </button>
      ))}
      <form onSubmit={add} className="w-20">
        <Input
          aria-label={name}
          placeholder={name}
          value={text}
          maxLength={256}
          onChange={(e) => setText(e.target.value)}
        />
      </form>
    </>
  );
}
