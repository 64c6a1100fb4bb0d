// parseHparams reads the text of an object; null if the text is anything else.
export function parseHparams(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : null;
  } catch {
    return null;
  }
}

// parseInteger reads a whole number; undefined for other texts, so the server keeps its value.
export function parseInteger(text: string): number | undefined {
  const number = Number(text);
  return text.trim() !== "" && Number.isSafeInteger(number) ? number : undefined;
}
