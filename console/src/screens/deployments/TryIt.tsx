import { Eraser, SendHorizontal, Square } from "lucide-react";
import { type FormEvent, type KeyboardEvent, useEffect, useMemo, useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import { type ApiError, toApiError } from "@/api/error";
import { bodyOf, converse, type Message, startParams } from "@/screens/playground/chat";
import { Button, ErrorNote, IconButton, Textarea, UntrustedText } from "@/ui";
import { useChanged } from "./api";
import type { Token } from "./deployment";
import { OwnToken } from "./own-token";

// A conversation keeps this many messages; the model would refuse a much longer one.
const mostMessages = 40;

// TryIt is a box to chat with a deployment. url is its base URL with /v1, on the host of the console.
export function TryIt({ deployment, url }: { deployment: string; url: string }) {
  const { t } = useTranslation("deployments");
  const [messages, setMessages] = useState<readonly Message[]>([]);
  const [text, setText] = useState("");
  const [error, setError] = useState<ApiError | null>(null);
  const [flight, setFlight] = useState<AbortController | null>(null);
  const { own, token } = useOwnToken(deployment);

  const submit = async () => {
    if (flight || text.trim() === "") return;
    const stop = new AbortController();
    const sent = [...messages, { role: "user" as const, content: text }].slice(-mostMessages);
    let reply = "";
    setFlight(stop);
    setError(null);
    setText("");
    setMessages([...sent, { role: "assistant", content: "" }]);
    try {
      const { token: secret } = await own.get();
      // The token of the session must not be sent, and is not renewed when the deployment refuses this one.
      const call = (request: Request) => {
        const headers = new Headers(request.headers);
        headers.set("Authorization", `Bearer ${secret}`);
        return fetch(new Request(request, { headers, credentials: "omit" }));
      };
      await converse(
        url,
        bodyOf(sent, startParams),
        call,
        (piece) => {
          reply += piece.text;
          setMessages([...sent, { role: "assistant", content: reply }]);
        },
        stop.signal,
      );
    } catch (thrown) {
      if (!stop.signal.aborted) setError(toApiError(thrown));
      // What got no response can be sent again.
      if (reply === "") {
        setMessages(messages);
        setText((typed) => (typed === "" ? text : typed));
      }
    }
    setFlight(null);
  };
  useEffect(() => () => flight?.abort(), [flight]);
  const revoke = async () => {
    setError(null);
    await own.revoke().catch((thrown: unknown) => setError(toApiError(thrown)));
  };

  const keys = (event: KeyboardEvent) => {
    // An input method uses Enter to choose a word.
    if (event.nativeEvent.isComposing || event.key !== "Enter" || event.shiftKey) return;
    event.preventDefault();
    void submit();
  };
  return (
    <div className="grid gap-2 rounded-lg border bg-card p-3">
      {messages.length > 0 ? <Conversation messages={messages} /> : null}
      {error ? <ErrorNote error={error} /> : null}
      <form
        className="flex items-end gap-2"
        onSubmit={(event: FormEvent) => {
          event.preventDefault();
          void submit();
        }}
      >
        <Textarea
          aria-label={t("try.message")}
          placeholder={t("try.message")}
          className="max-h-48 min-h-8! flex-1 resize-none [field-sizing:content]"
          rows={1}
          value={text}
          onChange={(event) => setText(event.target.value)}
          onKeyDown={keys}
        />
        {messages.length > 0 && !flight ? (
          <IconButton
            label={t("try.clear")}
            icon={<Eraser size={15} aria-hidden />}
            className="size-8"
            onClick={() => setMessages([])}
          />
        ) : null}
        {flight ? (
          <Button icon={<Square size={12} aria-hidden />} onClick={() => flight.abort()}>
            {t("try.stop")}
          </Button>
        ) : (
          <Button type="submit" icon={<SendHorizontal size={14} aria-hidden />} disabled={text.trim() === ""}>
            {t("try.send")}
          </Button>
        )}
      </form>
      <TokenNote token={token} onRevoke={revoke} />
    </div>
  );
}

function Conversation({ messages }: { messages: readonly Message[] }) {
  const { t } = useTranslation("deployments");
  return (
    <ol
      aria-label={t("try.conversation")}
      aria-live="polite"
      className="scroll-thin grid max-h-80 gap-2 overflow-y-auto"
    >
      {messages.map((message, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: messages are only added at the end
        <li key={at} className="text-sm">
          <span className="text-xs text-soft">{t(message.role === "user" ? "try.you" : "try.model")}</span>
          <p className="break-words whitespace-pre-wrap">
            <UntrustedText text={message.content} longest={60_000} />
          </p>
        </li>
      ))}
    </ol>
  );
}

function TokenNote({ token, onRevoke }: { token: Token | null; onRevoke: () => Promise<void> }) {
  const { t } = useTranslation("deployments");
  if (token === null) return <p className="text-xs text-soft">{t("try.noToken")}</p>;
  return (
    <p className="flex flex-wrap items-center gap-x-2 text-xs text-soft">
      {t("try.token", { prefix: token.prefix })}
      <Button variant="quiet" size="sm" className="text-bad" onClick={() => void onRevoke()}>
        {t("revoke")}
      </Button>
    </p>
  );
}

// useOwnToken has the token of the box while the page is open.
function useOwnToken(deployment: string): { own: OwnToken; token: Token | null } {
  const [token, setToken] = useState<Token | null>(null);
  const changed = useChanged();
  const latest = useRef(changed);
  latest.current = changed;
  const own = useMemo(
    () =>
      new OwnToken(deployment, (next) => {
        setToken(next);
        void latest.current();
      }),
    [deployment],
  );
  useEffect(() => {
    const leave = () => void own.revoke().catch(() => undefined);
    window.addEventListener("pagehide", leave);
    return () => {
      window.removeEventListener("pagehide", leave);
      leave();
    };
  }, [own]);
  return { own, token };
}
