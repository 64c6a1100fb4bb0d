// check.mjs FOLDER checks a built site: each link and anchor leads somewhere, nothing is requested from another host,
// each page is in the navigation, and csp.json names each script inside a page.
import { createHash } from 'node:crypto'
import { globSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { anchors, inlineScripts, links, loads, scriptLoads, styleLoads } from './src/markup.mjs'
import { base, files, navigation } from './src/source.mjs'

// Paths of the gateway outside the documentation that pages may name.
const served = ['/', '/login', '/device', '/api/openapi.json']

// Hosts to which pages may link. A browser requests nothing from them unless the reader follows the link.
const linked = ['github.com', 'gonum.org', 'passt.top']

const here = new URL('http://site.invalid')
const foreign = (address) => /^([a-z][a-z0-9+.-]*:)?\/\//i.test(address)

// siteProblems returns what is wrong with the pages, style sheets and scripts in a folder.
export function siteProblems(folder) {
  const read = (name) => readFileSync(join(folder, name), 'utf8')
  const pages = new Map(globSync('**/*.html', { cwd: folder }).map((name) => [name, read(name)]))
  const names = new Map([...pages].map(([name, html]) => [name, anchors(html)]))
  const out = []
  for (const [name, html] of pages) {
    const at = new URL(`${base}/${name.replace(/index\.html$/, '')}`, here)
    for (const address of links(html)) {
      if (foreign(address) || /^[a-z][a-z0-9+.-]*:/i.test(address)) {
        const { protocol, host } = new URL(address, here)
        if (protocol !== 'https:' || !linked.includes(host)) out.push(`${name}: link to ${address}; add the host to check.mjs if it is meant`)
        continue
      }
      const to = new URL(address, at)
      if (served.includes(to.pathname)) continue
      const target = file(to.pathname)
      if (target === undefined || !exists(folder, target)) out.push(`${name}: link to ${address}, which does not exist`)
      else if (to.hash && !names.get(target)?.has(decodeURIComponent(to.hash.slice(1)))) out.push(`${name}: link to ${address}, but the page has no such heading`)
    }
    out.push(...loads(html).flatMap((address) => loaded(folder, name, at, address)))
    out.push(...inlineScripts(html).flatMap(scriptLoads).filter(foreign).map((address) => `${name}: a script requests ${address}`))
  }
  for (const name of globSync('**/*.css', { cwd: folder })) out.push(...styleLoads(read(name)).flatMap((address) => loaded(folder, name, new URL(`${base}/${name}`, here), address)))
  for (const name of globSync('**/*.js', { cwd: folder })) out.push(...scriptLoads(read(name)).filter(foreign).map((address) => `${name}: the script requests ${address}`))
  return out.concat(policyProblems(pages, JSON.parse(read('csp.json')).script))
}

// file returns the file that the gateway sends for a path of the documentation.
function file(path) {
  if (!path.startsWith(`${base}/`)) return undefined
  const rest = decodeURIComponent(path.slice(base.length + 1))
  return rest === '' || rest.endsWith('/') ? `${rest}index.html` : rest
}

const exists = (folder, name) => statSync(join(folder, name), { throwIfNoEntry: false })?.isFile() ?? false

function loaded(folder, name, at, address) {
  if (foreign(address)) return [`${name}: requests ${address} from another host`]
  if (/^(data|blob):|^#/.test(address)) return []
  const target = file(new URL(address, at).pathname)
  return target !== undefined && exists(folder, target) ? [] : [`${name}: requests ${address}, which does not exist`]
}

function policyProblems(pages, allowed) {
  const found = new Set([...pages.values()].flatMap(inlineScripts).map((script) => 'sha256-' + createHash('sha256').update(script).digest('base64')))
  return [
    ...[...found].filter((hash) => !allowed.includes(hash)).map((hash) => `csp.json lacks ${hash}`),
    ...allowed.filter((hash) => !found.has(hash)).map((hash) => `csp.json has ${hash}, but no page has such a script`),
  ]
}

// navigationProblems returns the pages that the navigation lacks, and its entries without a page. The records of
// decisions are reached from their index.
export function navigationProblems(all, entries) {
  const shown = entries.flatMap(({ pages }) => pages).map((page) => page.file ?? page).filter((page) => typeof page === 'string')
  return [
    ...all.filter((page) => !shown.includes(page) && !/\/decisions\/\d/.test(page)).map((page) => `navigation.json lacks ${page}`),
    ...shown.filter((page) => !all.includes(page)).map((page) => `navigation.json has ${page}, which is not a page of the site`),
    ...shown.filter((page, i) => shown.indexOf(page) !== i).map((page) => `navigation.json has ${page} twice`),
  ]
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const out = [...siteProblems(process.argv[2]), ...navigationProblems(files(), navigation)]
  for (const problem of out) console.error(problem)
  process.exit(out.length === 0 ? 0 : 1)
}
