import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import starlight from '@astrojs/starlight'
import { defineConfig, passthroughImageService } from 'astro/config'
import { palettePlugin } from './src/palette.mjs'
import { base, id, navigation, top } from './src/source.mjs'

for (const copy of ['./src/icon.svg', './public/favicon.svg']) {
  copyFileSync(join(top, 'gateway/internal/webpage/asset/icon.svg'), new URL(copy, import.meta.url))
}

// entry returns the sidebar's entry for an entry of navigation.json: a file, a file with a label of its own, or a link.
const slug = (file) => (id(file) === 'index' ? '' : id(file))
const entry = (page) => (typeof page === 'string' ? { slug: slug(page) } : page.file ? { label: page.label, slug: slug(page.file) } : page)

export default defineConfig({
  base,
  trailingSlash: 'always',
  outDir: process.env.DOCS_OUT ?? './dist',
  cacheDir: process.env.DOCS_CACHE ?? './.astro/cache',
  // Nothing is fetched before the reader follows a link.
  prefetch: false,
  image: { service: passthroughImageService() },
  vite: {
    plugins: [palettePlugin],
    cacheDir: `${process.env.DOCS_CACHE ?? './.astro'}/vite`,
    // Scripts stay files of their own: the content security policy names each script inside a page by its hash.
    build: { assetsInlineLimit: 0 },
  },
  integrations: [
    starlight({
      title: 'Signalbox',
      description: 'The documentation of Signalbox, a self-hosted control plane that trains, judges and serves models.',
      logo: { src: './src/icon.svg', alt: '' },
      favicon: '/favicon.svg',
      head: [{ tag: 'script', attrs: { src: `${base}/search-label.js`, defer: true } }],
      customCss: ['virtual:palette.css', './src/styles/theme.css'],
      sidebar: navigation.map(({ label, collapsed, pages }) => ({ label, collapsed, items: pages.map(entry) })),
      expressiveCode: {
        themes: ['github-dark-high-contrast', 'github-light-high-contrast'],
        defaultProps: { frame: 'none', wrap: true },
        styleOverrides: { borderRadius: '8px', borderColor: 'var(--line)', codeBackground: 'var(--paper)', frames: { shadowColor: 'transparent' } },
      },
      credits: false,
    }),
  ],
})
