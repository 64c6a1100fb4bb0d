export type Rgb = readonly [number, number, number];

// The backgrounds of lines that leave the least contrast, in the light and the dark theme: those of marked lines.
const light: Rgb = [0xe4, 0xe8, 0xe0];
const dark: Rgb = [0x34, 0x33, 0x2b];

// The 16 colours of terminals, before they are made legible.
const basic: readonly Rgb[] = [
  [60, 64, 62],
  [190, 40, 30],
  [20, 125, 60],
  [150, 105, 0],
  [30, 90, 190],
  [150, 50, 150],
  [0, 125, 140],
  [110, 116, 112],
  [110, 116, 112],
  [225, 70, 60],
  [40, 160, 80],
  [190, 140, 20],
  [70, 130, 230],
  [190, 85, 190],
  [20, 160, 175],
  [160, 166, 162],
];

// paletteColor returns a colour of the palette of 256: 16 named ones, a cube of 216 and 24 greys.
export function paletteColor(index: number): Rgb {
  const named = basic[index];
  if (named) return named;
  if (index >= 232) {
    const grey = 8 + (index - 232) * 10;
    return [grey, grey, grey];
  }
  const level = (n: number) => (n === 0 ? 0 : 55 + n * 40);
  const at = index - 16;
  return [level(Math.floor(at / 36)), level(Math.floor(at / 6) % 6), level(at % 6)];
}

export function contrast(a: Rgb, b: Rgb): number {
  const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x) as [number, number];
  return (high + 0.05) / (low + 0.05);
}

// legible mixes a colour with black or white until its contrast to a background is 4.5.
export function legible(color: Rgb, background: Rgb): Rgb {
  const pole: Rgb = luminance(background) > 0.18 ? [0, 0, 0] : [255, 255, 255];
  for (let share = 0; share < 1; share += 0.05) {
    const mixed = mix(color, pole, share);
    if (contrast(mixed, background) >= 4.5) return mixed;
  }
  return pole;
}

const known = new Map<string, string>();

// cssColor returns a colour for text without a background of its own: one for each theme.
export function cssColor(color: Rgb): string {
  const key = color.join();
  const held = known.get(key);
  if (held) return held;
  if (known.size > 500) known.clear();
  const css = `light-dark(${rgb(legible(color, light))}, ${rgb(legible(color, dark))})`;
  known.set(key, css);
  return css;
}

export function rgb(color: Rgb): string {
  return `rgb(${color.map(Math.round).join(" ")})`;
}

function mix(a: Rgb, b: Rgb, share: number): Rgb {
  return [a[0] + (b[0] - a[0]) * share, a[1] + (b[1] - a[1]) * share, a[2] + (b[2] - a[2]) * share];
}

function luminance(color: Rgb): number {
  const [r, g, b] = color.map((value) => {
    const c = value / 255;
    return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  }) as [number, number, number];
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
