// Characters that can change how the text around them looks: control characters, bidirectional marks, zero-width
// characters and other invisible ones.
const hidden =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it looks for
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb]|[\u{e0000}-\u{e0fff}]/gu;

// visible returns a text of unknown origin with its invisible characters as escapes such as \u202e, cut after a number of
// characters. Tabs and line breaks stay.
export function visible(text: string, longest: number): { text: string; cut: boolean } {
  const cut = text.length > longest;
  // Do not cut a pair of surrogates.
  const end = cut && /[\ud800-\udbff]/.test(text.charAt(longest - 1)) ? longest - 1 : longest;
  const kept = cut ? text.slice(0, end) : text;
  return { text: kept.toWellFormed().replace(hidden, escaped), cut };
}

// plain is for attributes and sentences, which cannot contain UntrustedText.
export function plain(text: string | null | undefined, longest = 300): string | undefined {
  return text ? visible(text, longest).text : undefined;
}

function escaped(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  return code > 0xffff ? `\\u{${code.toString(16)}}` : `\\u${code.toString(16).padStart(4, "0")}`;
}
