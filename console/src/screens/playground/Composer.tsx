import { Eraser, SendHorizontal, SlidersHorizontal, Square } from "lucide-react";
import { type FormEvent, type KeyboardEvent, useState } from "react";
import { useTranslation } from "react-i18next";
import { Button, IconButton, Textarea } from "@/ui";
import type { Params } from "./chat";
import { ParamFields } from "./ParamFields";

type Props = {
  busy: boolean;
  ready: number;
  of: number;
  params: Params;
  onParams: (params: Params) => void;
  onSend: (text: string) => void;
  onStop: () => void;
  onClear?: () => void;
};

// Composer sends one message to all columns. Enter sends, Shift-Enter makes a new line, Escape stops.
export function Composer({ busy, ready, of, params, onParams, onSend, onStop, onClear }: Props) {
  const { t } = useTranslation("playground");
  const [text, setText] = useState("");
  const [open, setOpen] = useState(false);
  const send = () => {
    if (busy || ready === 0 || text.trim() === "") return;
    onSend(text);
    setText("");
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    send();
  };
  const keys = (event: KeyboardEvent) => {
    // An input method uses Enter to choose a word.
    if (event.nativeEvent.isComposing) return;
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      send();
    }
    if (event.key === "Escape" && busy) {
      event.preventDefault();
      onStop();
    }
  };
  return (
    <form onSubmit={submit} className="shrink-0 border-t bg-card px-4 py-3 md:px-6">
      {open ? <ParamFields params={params} onChange={onParams} /> : null}
      <div className="flex items-end gap-2">
        <Textarea
          aria-label={t("message")}
          placeholder={ready === 0 ? t("notReady") : t("messageTo", { count: ready, of })}
          className="max-h-48 min-h-8! flex-1 resize-none [field-sizing:content]"
          rows={1}
          autoFocus
          value={text}
          onChange={(event) => setText(event.target.value)}
          onKeyDown={keys}
        />
        <IconButton
          label={t("params")}
          aria-expanded={open}
          icon={<SlidersHorizontal size={15} aria-hidden />}
          className="size-8"
          onClick={() => setOpen(!open)}
        />
        {onClear ? (
          <IconButton label={t("clear")} icon={<Eraser size={15} aria-hidden />} className="size-8" onClick={onClear} />
        ) : null}
        {busy ? (
          <Button icon={<Square size={12} aria-hidden />} onClick={onStop}>
            {t("stopAll")}
          </Button>
        ) : (
          <Button
            type="submit"
            variant="primary"
            icon={<SendHorizontal size={14} aria-hidden />}
            disabled={ready === 0 || text.trim() === ""}
          >
            {t("send")}
          </Button>
        )}
      </div>
    </form>
  );
}
