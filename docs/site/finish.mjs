// finish.mjs FOLDER completes a built site: it adds the program of the API reference, and writes csp.json
// with the hashes of all scripts inside the pages. The gateway allows these scripts and no others.
import { createHash } from 'node:crypto'
import { globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { inlineScripts } from './src/markup.mjs'

const folder = process.argv[2]
const scalar = fileURLToPath(new URL('node_modules/@scalar/api-reference/', import.meta.url))
mkdirSync(join(folder, 'api-reference'), { recursive: true })
const program = readFileSync(join(scalar, 'dist/browser/standalone.js'), 'utf8')
const { name: product, version, license } = JSON.parse(readFileSync(join(scalar, 'package.json'), 'utf8'))
const notice = `/*! ${product} ${version}, ${license} license */\n`
writeFileSync(join(folder, 'api-reference/scalar.js'), notice + program.replace(/\n?\/\/# sourceMappingURL=\S*\s*$/, '\n'))

// The site uses Pagefind's default user interface from its own bundle, so the copies beside the index are not needed.
for (const name of globSync('pagefind/pagefind-{ui,modular-ui,component-ui,highlight}*', { cwd: folder })) rmSync(join(folder, name))

const hashes = new Set()
for (const page of globSync('**/*.html', { cwd: folder })) {
  nameSearch(join(folder, page))
  for (const script of inlineScripts(readFileSync(join(folder, page), 'utf8'))) {
    hashes.add('sha256-' + createHash('sha256').update(script).digest('base64'))
  }
}
writeFileSync(join(folder, 'csp.json'), JSON.stringify({ script: [...hashes].sort() }) + '\n')

// nameSearch removes the keys from the text of the search button, which would otherwise differ from its name for screen
// readers. The style sheet shows them.
function nameSearch(file) {
  const html = readFileSync(file, 'utf8')
  const keys = /<kbd class="sl-hidden[^>]*>\s*<kbd[^>]*>[^<]*<\/kbd>\s*<kbd[^>]*>[^<]*<\/kbd>\s*<\/kbd>/
  if (html.includes('data-open-modal') && !keys.test(html)) throw new Error(`${file}: the search button has no keys; remove nameSearch from finish.mjs`)
  writeFileSync(file, html.replace(keys, ''))
}
