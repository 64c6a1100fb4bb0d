// The colours of the sign-in pages, so that all pages of an installation look alike.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { top } from './source.mjs'

const sheet = 'gateway/internal/webpage/asset/page.css'

// palette returns a style sheet with the colours as variables, for the theme that the reader has chosen.
export function palette() {
  const blocks = [...readFileSync(join(top, sheet), 'utf8').matchAll(/:root \{([^}]*)\}/g)].map((m) => m[1])
  if (blocks.length !== 2) throw new Error(`${sheet} has ${blocks.length} blocks of colours; the documentation expects light and dark`)
  const [light, dark] = blocks
  return `:root {${light}}\n:root[data-theme='dark'] {${dark}}\n`
}

// palettePlugin serves the style sheet to the build as virtual:palette.css.
export const palettePlugin = {
  name: 'palette',
  enforce: 'pre',
  resolveId: (name) => (name.endsWith('virtual:palette.css') ? '\0palette.css' : undefined),
  load: (name) => (name === '\0palette.css' ? palette() : undefined),
}
