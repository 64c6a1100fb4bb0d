import type { Sample } from "./api";

export type Turn = { role: string; text: string };
export type Part = "user" | "assistant" | "env";

// turns returns a part of a sample as turns of a conversation. A part is a string, a list of messages, or any other JSON,
// which is shown as it is.
export function turns(part: unknown, role: Part): Turn[] {
  if (part === null || part === undefined) return [];
  if (typeof part === "string") return [{ role, text: part }];
  if (Array.isArray(part) && part.length > 0 && part.every(isMessage))
    return part.map((message) => ({
      role: typeof message.role === "string" ? message.role : role,
      text: content(message),
    }));
  if (isMessage(part)) return [{ role: typeof part.role === "string" ? part.role : role, text: content(part) }];
  return [{ role, text: JSON.stringify(part, null, 2) }];
}

// A message has a content, and no other member that would be lost.
type Message = { role?: unknown; content: unknown };

function isMessage(value: unknown): value is Message {
  if (typeof value !== "object" || value === null || !("content" in value)) return false;
  return Object.keys(value).every((key) => key === "role" || key === "content");
}

function content(message: Message): string {
  return typeof message.content === "string" ? message.content : JSON.stringify(message.content, null, 2);
}

// textOf returns all text of a part, to compare it with that of another sample.
export function textOf(part: unknown): string {
  return turns(part, "assistant")
    .map((turn) => turn.text)
    .join("\n\n");
}

// firstLine returns what a list shows of a sample: the first line of its user's text that is not empty.
export function firstLine(sample: Sample): string {
  const text = turns(sample.user, "user").at(-1)?.text ?? textOf(sample.assistant);
  const line = /\S[^\n]*/.exec(text.slice(0, 2000))?.[0] ?? "";
  return line.slice(0, 200);
}

// lengthOf returns how many characters the assistant wrote, of a protected run as the server reports it.
export function lengthOf(sample: Sample): number | null {
  const withheld = withheldOf(sample);
  if (withheld) return withheld.assistant ?? null;
  return sample.assistant === null || sample.assistant === undefined ? null : textOf(sample.assistant).length;
}

type Withheld = { user?: number | null; assistant?: number | null; env?: number | null };

// withheldOf returns the lengths of the parts of a sample whose text a protected run does not show.
export function withheldOf(sample: Sample): Withheld | null {
  const withheld = (sample.extra as { withheld?: Withheld } | null)?.withheld;
  const hidden = sample.user === null && sample.assistant === null && sample.env === null;
  return hidden && typeof withheld === "object" && withheld !== null ? withheld : null;
}

// numberOf returns a number of the API that may be NaN or an infinity.
export function numberOf(value: number | string | null | undefined): number | null {
  return value === null || value === undefined ? null : Number(value);
}
