// The pages of the site: which Markdown files of the repository it shows, and under which paths.
import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'

export const base = '/docs'
// The top folder of the repository. scripts/docs.sh builds in a copy of docs/site elsewhere.
export const top = process.env.DOCS_TOP ?? fileURLToPath(new URL('../../../', import.meta.url))
export const navigation = JSON.parse(readFileSync(new URL('navigation.json', import.meta.url), 'utf8'))

// Files that are published under another name than their own.
const renamed = {
  'docs/guide/index.md': 'index',
  'deploy/README.md': 'deploy',
  'CONTRIBUTING.md': 'contributing',
  'SECURITY.md': 'reporting',
  'CHANGELOG.md': 'changelog',
  'docs/contributing/decisions/README.md': 'contributing/decisions',
}

// Long lists of sentences on everything, which would be the first result of most searches.
const unsearched = ['CHANGELOG.md', 'docs/rules.md']

// weight returns how much the words of a page count in searches. Most readers do not look for pages for contributors, and
// the list of error codes has a sentence on everything.
export const weight = (file) => (file === 'docs/reference/errors.md' ? 0.5 : /^(docs\/(guide|reference)|deploy)\//.test(file) ? 1 : 0.2)

// id returns the path of a page below /docs, without slashes at its ends.
export const id = (file) => renamed[file] ?? file.replace(/^docs\//, '').replace(/\.md$/, '')

// url returns the address of a page on the site.
export const url = (file) => (id(file) === 'index' ? `${base}/` : `${base}/${id(file)}/`)

// files lists the Markdown files that the site shows: those of docs, and the named ones elsewhere.
export const files = () => [
  ...globSync('docs/**/*.md', { cwd: top, exclude: (name) => name === 'node_modules' || name === 'site' }),
  ...Object.keys(renamed).filter((file) => !file.startsWith('docs/')),
].sort()

// page reads a file: its title, its text without the title and the text of its first paragraph.
export function page(file) {
  const text = readFileSync(join(top, file), 'utf8')
  const heading = /^# (.+)\n/.exec(text)
  if (!heading) throw new Error(`${file} does not begin with a line "# TITLE"`)
  const body = text.slice(heading[0].length)
  const first = body.split(/\n\s*\n/).map((p) => p.trim()).find((p) => /^[A-Z`[]/.test(p))
  return { title: plain(heading[1]), description: first && clip(plain(first)), searched: !unsearched.includes(file), body: shown(file, body) }
}

const plain = (markdown) => markdown.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').replace(/[`*]/g, '').replace(/\s+/g, ' ')
const clip = (text) => (text.length <= 160 ? text : text.slice(0, 157).replace(/\s\S*$/, '') + ' …')

// shown rewrites what depends on the place of a file: pictures become part of the page, and links between files
// become links between pages. A link to a file that the site does not show keeps only its text.
function shown(file, body) {
  const published = new Set(files())
  const folder = dirname(file)
  const link = (all, text, target) => {
    if (/^([a-z]+:|\/|#)/.test(target)) return all
    const [path, anchor] = target.split('#')
    const to = posix.normalize(posix.join(folder, path))
    if (!existsSync(join(top, to))) throw new Error(`${file} links to ${target}, which does not exist`)
    if (!published.has(to)) return text
    return `[${text}](${url(to)}${anchor ? '#' + anchor : ''})`
  }
  const picture = (_, alt, target) => {
    const svg = readFileSync(join(top, folder, target), 'utf8').replace(/\n\s*/g, ' ').trim()
    return svg.replace('<svg ', `<svg class="picture" role="img" aria-label="${alt.replace(/"/g, '&quot;')}" `)
  }
  return outsideCode(body, (text) => text
    .replace(/!\[([^\]]*)\]\(([^()\s]+\.svg)\)/g, picture)
    .replace(/(?<!!)\[((?:[^[\]]|`[^`]*`)*)\]\(([^()\s]+)\)/g, link))
}

// outsideCode applies a change to the text outside of code blocks.
const outsideCode = (text, change) =>
  text.split(/(^```[\s\S]*?^```$)/m).map((part, i) => (i % 2 ? part : change(part))).join('')
