import { createParser } from "eventsource-parser";
import { failure } from "@/api/error";

export type Message = { role: "system" | "user" | "assistant"; content: string };

export type Params = {
  system: string;
  temperature: number;
  topP: number;
  maxTokens: number;
  seed: number | null;
};

export const startParams: Params = { system: "", temperature: 0.7, topP: 1, maxTokens: 512, seed: null };

// bodyOf is the request for the next message of a column.
export function bodyOf(messages: readonly Message[], params: Params) {
  return {
    model: "default",
    stream: true,
    stream_options: { include_usage: true },
    temperature: params.temperature,
    top_p: params.topP,
    max_tokens: params.maxTokens,
    ...(params.seed === null ? {} : { seed: params.seed }),
    messages: [
      ...(params.system.trim() === "" ? [] : [{ role: "system" as const, content: params.system }]),
      ...messages,
    ],
  };
}

// curlOf repeats a request in a terminal. Single quotes of a shell cannot contain one.
export function curlOf(url: string, body: unknown): string {
  return `curl -sN ${url}/chat/completions \\
  -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' \\
  -d '${JSON.stringify(body).replaceAll("'", "'\\''")}'`;
}

// What one event of a stream adds.
export type Piece = { text: string; tokens: number | null; promptTokens: number | null; finish: string | null };

// pieceOf reads an event of the engine. Only its form is known.
export function pieceOf(data: string): Piece | Error {
  let value: unknown;
  try {
    value = JSON.parse(data);
  } catch {
    return new Error("the engine sent an event that is not JSON");
  }
  const event = value as {
    choices?: { delta?: { content?: unknown }; finish_reason?: unknown }[];
    usage?: { completion_tokens?: unknown; prompt_tokens?: unknown } | null;
    error?: { message?: unknown };
  } | null;
  if (typeof event !== "object" || event === null) return new Error("the engine sent an event that is not an object");
  if (event.error) return new Error(String(event.error.message ?? "the engine failed"));
  const choice = Array.isArray(event.choices) ? event.choices[0] : undefined;
  const count = (n: unknown) => (typeof n === "number" ? n : null);
  return {
    text: typeof choice?.delta?.content === "string" ? choice.delta.content : "",
    finish: typeof choice?.finish_reason === "string" ? choice.finish_reason : null,
    tokens: count(event.usage?.completion_tokens),
    promptTokens: count(event.usage?.prompt_tokens),
  };
}

export type Send = (request: Request) => Promise<Response>;

// converse sends a request and calls `on` with each piece of the response. Aborting the signal ends the request, and with
// it the work of the engine.
export async function converse(
  url: string,
  body: unknown,
  send: Send,
  on: (piece: Piece) => void,
  signal: AbortSignal,
): Promise<void> {
  const response = await send(
    new Request(`${url}/chat/completions`, {
      method: "POST",
      headers: { "Content-Type": "application/json", Accept: "text/event-stream" },
      body: JSON.stringify(body),
      signal,
    }),
  );
  if (!response.ok || response.body === null) throw failure(response, await response.json().catch(() => null));
  let failed: Error | null = null;
  let done = false;
  const parser = createParser({
    onEvent: ({ data }) => {
      if (data === "[DONE]") {
        done = true;
        return;
      }
      const piece = pieceOf(data);
      if (piece instanceof Error) failed ??= piece;
      else on(piece);
    },
  });
  const decoder = new TextDecoder();
  const reader = response.body.getReader();
  try {
    for (;;) {
      const chunk = await reader.read();
      if (chunk.done) break;
      parser.feed(decoder.decode(chunk.value, { stream: true }));
      if (failed) throw failed;
      if (done) break;
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

// Rate is the speed of a response: milliseconds until the first text, and tokens per second after it.
export type Rate = { ttft: number | null; perSecond: number | null; tokens: number; exact: boolean };

// rateOf computes the speed. Engines count their tokens; until they say how many, each piece counts as one.
export function rateOf(
  began: number,
  first: number | null,
  last: number,
  pieces: number,
  counted: number | null,
): Rate {
  const tokens = counted ?? pieces;
  if (first === null) return { ttft: null, perSecond: null, tokens, exact: counted !== null };
  const seconds = (last - first) / 1000;
  // The first token comes with the first piece, before the time that is measured.
  return {
    ttft: first - began,
    perSecond: tokens > 1 && seconds > 0 ? (tokens - 1) / seconds : null,
    tokens,
    exact: counted !== null,
  };
}
