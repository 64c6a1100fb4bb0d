// nameOf returns the name of an object of the API, or of one that was read with its ETag; null if it has none.
export function nameOf(data: unknown): string | null {
  if (typeof data !== "object" || data === null) return null;
  const { name, title, username, value } = data as Record<string, unknown>;
  for (const text of [name, title, username]) if (typeof text === "string" && text !== "") return text;
  return value === undefined ? null : nameOf(value);
}
