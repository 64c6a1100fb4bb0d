// What the build reads in pages, style sheets and scripts. The pages are written by one program, so patterns suffice.

// inlineScripts returns the scripts inside a page. Browsers check the content security policy for each of them, also
// for modules, but not for data.
export const inlineScripts = (html) =>
  [...html.matchAll(/<script\b([^>]*)>([\s\S]*?)<\/script>/gi)]
    .filter(([, attributes]) => !/\bsrc\s*=/i.test(attributes) && !/\btype\s*=\s*["']?(application|text)\/(?!javascript)/i.test(attributes))
    .map((m) => m[2])

const decode = (text) =>
  text.replace(/&(amp|quot|lt|gt|#39|#x27|#38|#x26);/g, (_, name) => ({ amp: '&', '#38': '&', '#x26': '&', quot: '"', lt: '<', gt: '>' })[name] ?? "'")

// tags returns the tags of a page with their attributes, without the text of scripts.
const tags = (html) =>
  [...html.replace(/(<script\b[^>]*>)[\s\S]*?<\/script>/gi, '$1').matchAll(/<([a-z][a-z0-9-]*)((?:\s+[^\s"'>/=]+(?:\s*=\s*(?:"[^"]*"|'[^']*'|[^\s"'>]+))?)*)\s*\/?>/gi)].map(([, name, rest]) => ({
    name: name.toLowerCase(),
    attributes: Object.fromEntries([...rest.matchAll(/([^\s"'>/=]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+)))?/g)].map((m) => [m[1].toLowerCase(), decode(m[2] ?? m[3] ?? m[4] ?? '')])),
  }))

// anchors returns the names that a link to the page may have after #.
export const anchors = (html) => new Set(tags(html).flatMap(({ attributes: a }) => [a.id, a.name]).filter(Boolean))

// links returns the addresses to which the page leads when the reader follows a link.
export const links = (html) => tags(html).filter(({ name, attributes: a }) => name === 'a' && a.href !== undefined).map(({ attributes: a }) => a.href)

// loads returns the addresses that a browser requests to show the page.
export const loads = (html) =>
  tags(html).flatMap(({ name, attributes: a }) => [
    ...(name === 'a' ? [] : [a.href, a['xlink:href']]),
    a.src, a.data, a.poster, a.action, a.formaction, a.ping,
    ...(a.srcset ?? '').split(',').map((part) => part.trim().split(/\s/)[0]),
    ...styleLoads(a.style ?? ''),
    ...(a['http-equiv']?.toLowerCase() === 'refresh' ? [/url=(.*)/i.exec(a.content)?.[1]] : []),
  ]).filter(Boolean).concat(styleLoads([...html.matchAll(/<style\b[^>]*>([\s\S]*?)<\/style>/gi)].map((m) => m[1]).join('\n')))

// styleLoads returns the addresses that a style sheet requests.
export const styleLoads = (css) =>
  [...css.matchAll(/url\(\s*["']?([^"')\s]+)|@import\s+["']([^"']+)/gi)].map((m) => m[1] ?? m[2])

// scriptLoads returns the literal addresses that a script gives to a function that requests them.
export const scriptLoads = (js) =>
  [...js.matchAll(/\b(?:fetch|import|importScripts|open|sendBeacon|Worker|SharedWorker|EventSource|WebSocket|Request)\s*\(\s*["'`]([^"'`]+)|\bfrom\s*["']([^"'\n]+)["']/g)].map((m) => m[1] ?? m[2])
