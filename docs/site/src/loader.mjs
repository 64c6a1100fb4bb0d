// Loads the Markdown files of the repository where they are. Starlight's own loader reads only files in
// src/content/docs, which have a header with the title.
import { pathToFileURL } from 'node:url'
import { join } from 'node:path'
import { files, id, page, weight } from './source.mjs'

export function repositoryLoader() {
  return {
    name: 'repository',
    async load({ config, store, parseData, renderMarkdown, generateDigest }) {
      store.clear()
      for (const file of files()) {
        const { title, description, searched, body } = page(file)
        const data = await parseData({ id: id(file), data: { title, description, pagefind: searched } })
        // Starlight adds its heading links only to files that seem to be in its own folder.
        const fileURL = pathToFileURL(join(new URL('content/docs/', config.srcDir).pathname, `${id(file)}.md`))
        const rendered = await renderMarkdown(body, { fileURL })
        rendered.html = `<div data-pagefind-weight="${weight(file)}">${rendered.html}</div>`
        store.set({ id: id(file), data, body, filePath: `src/content/docs/${id(file)}.md`, digest: generateDigest(body), rendered })
      }
    },
  }
}
