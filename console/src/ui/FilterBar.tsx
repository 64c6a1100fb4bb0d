import { Search, X } from "lucide-react";
import { type ReactNode, useEffect, useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import { Button } from "./Button";
import { Input } from "./Input";

type Props = {
  // The text filter. It is part of the address, like all filters: onQuery navigates.
  query: string;
  onQuery: (query: string) => void;
  // onText is called with the text at once, for a list that needs no request.
  onText?: (text: string) => void;
  placeholder: string;
  // The other filters.
  children?: ReactNode;
  // onClear removes all filters; it is unset while none is set.
  onClear?: () => void;
  // What stands at the right end, such as the column chooser.
  end?: ReactNode;
};

const pause = 250;

// FilterBar is the row of filters above a list. The key "/" moves the focus to its text filter.
export function FilterBar({ query, onQuery, onText, placeholder, children, onClear, end }: Props) {
  const { t } = useTranslation();
  const [text, setText] = useState(query);
  const sent = useRef(query);
  // The address may change by other means than typing, such as the back button.
  useEffect(() => {
    if (query !== sent.current) setText(query);
    sent.current = query;
  }, [query]);
  useEffect(() => {
    if (text === sent.current) return;
    const timer = setTimeout(() => {
      sent.current = text;
      onQuery(text.trim());
    }, pause);
    return () => clearTimeout(timer);
  }, [text, onQuery]);

  useEffect(() => onText?.(text), [text, onText]);

  return (
    <div role="search" className="flex flex-wrap items-center gap-2 px-4 pb-3 md:px-6">
      <div className="relative w-full sm:w-64">
        <Search size={14} aria-hidden className="absolute top-1/2 left-2.5 -translate-y-1/2 text-soft" />
        <Input
          data-filter
          type="text"
          aria-label={placeholder}
          placeholder={placeholder}
          value={text}
          maxLength={200}
          onChange={(event) => setText(event.target.value)}
          className="pl-8"
        />
      </div>
      {children}
      {onClear ? (
        <Button variant="quiet" icon={<X size={13} aria-hidden />} onClick={onClear}>
          {t("clearFilters")}
        </Button>
      ) : null}
      {end ? <div className="ml-auto flex items-center gap-2">{end}</div> : null}
    </div>
  );
}
