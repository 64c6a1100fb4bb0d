import { pieceOf } from "./chat";

// questionOf returns the last message of a recorded request, or the request itself if it is not a chat.
export function questionOf(request: string): string {
  try {
    const { messages } = JSON.parse(request) as { messages?: { content?: unknown }[] };
    const last = Array.isArray(messages) ? messages.at(-1)?.content : undefined;
    if (typeof last === "string") return last;
  } catch {
    // It was cut, or it is not JSON.
  }
  return request;
}

// replyOf returns the text of a recorded response: of a stream, of one JSON object, or the response itself.
export function replyOf(response: string): string {
  if (/^data: ?\{/m.test(response)) {
    return response
      .split("\n")
      .filter((line) => line.startsWith("data:") && !line.includes("[DONE]"))
      .map((line) => {
        const piece = pieceOf(line.slice(5).trim());
        return piece instanceof Error ? "" : piece.text;
      })
      .join("");
  }
  try {
    const { choices } = JSON.parse(response) as { choices?: { message?: { content?: unknown } }[] };
    const text = Array.isArray(choices) ? choices[0]?.message?.content : undefined;
    if (typeof text === "string") return text;
  } catch {
    // It was cut, or it is not JSON.
  }
  return response;
}
