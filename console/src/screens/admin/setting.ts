import type { Setting } from "./api";

export function shownValue(value: unknown): string {
  if (value === null || value === undefined) return "";
  return Array.isArray(value) ? value.join(", ") : String(value);
}

// textOf is the value of a setting as the form shows it: a list has one line for each entry, and a secret is empty.
export function textOf(setting: Pick<Setting, "type" | "value">): string {
  if (setting.type === "secret") return "";
  return Array.isArray(setting.value) ? setting.value.join("\n") : shownValue(setting.value);
}

// valueFrom is the value that a text of the form stands for. A number that cannot be read is sent as it is, so that the server
// states what is wrong.
export function valueFrom(type: string, text: string): unknown {
  if (type === "boolean") return text === "true";
  if (type === "integer") return /^-?\d+$/.test(text.trim()) ? Number(text) : text;
  if (type !== "string_list") return text;
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter(Boolean);
}
