// Tests of check.mjs: each kind of problem is found in a small site that has it.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { navigationProblems, siteProblems } from './check.mjs'

const script = 'document.title = 1'
const hash = 'sha256-' + createHash('sha256').update(script).digest('base64')
const good = {
  'index.html': `<a href="/docs/a/#one">a</a><a href="/login">sign in</a><a href="https://github.com/google/re2">re2</a><script>${script}</script><script type="application/json">{"src": "//x.example"}</script>`,
  'a/index.html': '<link rel="stylesheet" href="/docs/x.css"><h2 id="one">One</h2><a href="../">up</a><a href="#one">here</a><img src="data:image/png;base64,AA==">',
  'x.css': 'a { background: url(data:image/png;base64,AA==) }',
  'x.js': "import './x.js'; fetch('/api/openapi.json')",
  'csp.json': JSON.stringify({ script: [hash] }),
}

// problems returns what the check finds in the good site with some files replaced.
function problems(t, changed) {
  const folder = mkdtempSync(join(tmpdir(), 'docs-check-'))
  t.after(() => rmSync(folder, { recursive: true }))
  for (const [name, text] of Object.entries({ ...good, ...changed })) {
    mkdirSync(dirname(join(folder, name)), { recursive: true })
    writeFileSync(join(folder, name), text)
  }
  return siteProblems(folder)
}

test('good site has no problems', (t) => assert.deepEqual(problems(t, {}), []))

const bad = [
  ['link to a missing page', 'a/index.html', '<h2 id="one"></h2><a href="/docs/b/">b</a>', /index\.html: link to \/docs\/b\//],
  ['link without the last slash', 'a/index.html', '<h2 id="one"></h2><a href="/docs/a">a</a>', /link to \/docs\/a,/],
  ['link to a Markdown file', 'a/index.html', '<h2 id="one"></h2><a href="a.md">a</a>', /link to a\.md/],
  ['link to a missing heading', 'a/index.html', '<h2 id="two"></h2>', /link to \/docs\/a\/#one/],
  ['link to another part of the gateway', 'a/index.html', '<h2 id="one"></h2><a href="/jobs">jobs</a>', /link to \/jobs/],
  ['link to an unknown host', 'a/index.html', '<h2 id="one"></h2><a href="https://other.example/">x</a>', /link to https:\/\/other\.example/],
  ['script of another host', 'a/index.html', '<h2 id="one"></h2><script src="//cdn.example/x.js"></script>', /requests \/\/cdn\.example/],
  ['image of another host', 'a/index.html', '<h2 id="one"></h2><img srcset="/docs/x.css 1x, https://cdn.example/x.png 2x">', /requests https:\/\/cdn/],
  ['style attribute of another host', 'a/index.html', `<h2 id="one"></h2><p style="background: url('https://cdn.example/x.png')">`, /requests https:\/\/cdn/],
  ['missing image', 'a/index.html', '<h2 id="one"></h2><img src="x.png">', /requests x\.png, which does not exist/],
  ['font of another host', 'x.css', '@font-face { src: url(https://fonts.example/x.woff2) }', /x\.css: requests https:\/\/fonts/],
  ['style sheet of another host', 'x.css', '@import "https://fonts.example/x.css";', /x\.css: requests https:\/\/fonts/],
  ['request of a script', 'x.js', 'fetch(`https://api.example/`)', /x\.js: the script requests https:\/\/api/],
  ['module of another host', 'x.js', 'import x from "https://cdn.example/x.js"', /x\.js: the script requests https:\/\/cdn/],
  ['script without a hash', 'a/index.html', '<h2 id="one"></h2><script>other()</script>', /csp\.json lacks sha256-/],
  ['hash without a script', 'csp.json', JSON.stringify({ script: [hash, 'sha256-x'] }), /csp\.json has sha256-x/],
]
for (const [name, file, text, want] of bad) {
  test(name, (t) => {
    const found = problems(t, { [file]: text })
    assert.equal(found.length, 1, found.join('\n'))
    assert.match(found[0], want)
  })
}

test('navigation', () => {
  const entries = [{ pages: ['docs/a.md', 'docs/c.md', { label: 'x', link: '/x/' }, { label: 'a', file: 'docs/a.md' }] }]
  assert.deepEqual(navigationProblems(['docs/a.md', 'docs/b.md', 'docs/contributing/decisions/0001-x.md'], entries), [
    'navigation.json lacks docs/b.md',
    'navigation.json has docs/c.md, which is not a page of the site',
    'navigation.json has docs/a.md twice',
  ])
})
