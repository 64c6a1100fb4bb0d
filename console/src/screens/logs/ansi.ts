import { paletteColor, type Rgb } from "./color";

export type Style = {
  color?: Rgb;
  background?: Rgb;
  bold?: true;
  dim?: true;
  italic?: true;
  underline?: true;
  strike?: true;
  inverse?: true;
};

export type Piece = { text: string; style: Style };

// Control sequences (CSI), commands for the terminal such as its title (OSC), and other escapes.
const sequence =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: escapes are what it looks for
  /(?:\u001b\[|\u009b)([0-?]*)[ -/]*([@-~])|\u001b[\]PX^_][^\u0007\u001b]*(?:\u0007|\u001b\\|$)|\u001b[ -/]*[0-~]|\u001b/g;

// parseAnsi cuts a line into pieces with one style each. It follows the sequences for colours and styles (SGR) and drops
// all others. Of a line that carriage returns overwrite, only the last text stays.
export function parseAnsi(line: string): Piece[] {
  const pieces: Piece[] = [];
  let style: Style = {};
  let at = 0;
  const text = lastWritten(line);
  const push = (end: number) => {
    if (end > at) pieces.push({ text: text.slice(at, end), style });
  };
  for (const found of text.matchAll(sequence)) {
    push(found.index);
    at = found.index + found[0].length;
    if (found[2] === "m") style = restyle(style, found[1] ?? "");
  }
  push(text.length);
  return pieces;
}

function lastWritten(line: string): string {
  const text = line.endsWith("\r") ? line.slice(0, -1) : line;
  return text.slice(text.lastIndexOf("\r") + 1);
}

const on: Record<number, Style> = {
  1: { bold: true },
  2: { dim: true },
  3: { italic: true },
  4: { underline: true },
  7: { inverse: true },
  9: { strike: true },
};

const off: Record<number, (keyof Style)[]> = {
  22: ["bold", "dim"],
  23: ["italic"],
  24: ["underline"],
  27: ["inverse"],
  29: ["strike"],
  39: ["color"],
  49: ["background"],
};

function restyle(before: Style, parameters: string): Style {
  let style = { ...before };
  const codes = parameters.split(/[;:]/).map(Number);
  for (let at = 0; at < codes.length; at++) {
    const code = codes[at] ?? 0;
    if (code === 0) style = {};
    else if (code in on) style = { ...style, ...on[code] };
    else if (code in off) for (const key of off[code] ?? []) delete style[key];
    else if (code === 38 || code === 48) {
      const [color, used] = extended(codes, at + 1);
      if (color) style = { ...style, [code === 38 ? "color" : "background"]: color };
      at += used;
    } else style = { ...style, ...named(code) };
  }
  return style;
}

function named(code: number): Style {
  if (code >= 30 && code <= 37) return { color: paletteColor(code - 30) };
  if (code >= 90 && code <= 97) return { color: paletteColor(code - 82) };
  if (code >= 40 && code <= 47) return { background: paletteColor(code - 40) };
  if (code >= 100 && code <= 107) return { background: paletteColor(code - 92) };
  return {};
}

// extended reads a colour of the palette (5;N) or of three parts (2;R;G;B), and how many codes it takes.
function extended(codes: number[], at: number): [Rgb | null, number] {
  if (codes[at] === 5) {
    const index = codes[at + 1] ?? -1;
    return [index >= 0 && index <= 255 ? paletteColor(index) : null, 2];
  }
  if (codes[at] !== 2) return [null, 0];
  const parts = codes.slice(at + 1, at + 4);
  const valid = parts.length === 3 && parts.every((part) => part >= 0 && part <= 255);
  return [valid ? (parts as unknown as Rgb) : null, 4];
}
