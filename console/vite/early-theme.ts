import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import type { Plugin } from "vite";

const source = new URL("../src/theme/early.js", import.meta.url);
const tag = "/src/theme/early.js";

// earlyTheme serves the script that sets the theme before the first paint. It must run before the page is shown, so it
// is no module, and the content security policy forbids it in the page itself: the build writes it beside the assets.
export function earlyTheme(): Plugin {
  let building = false;
  const code = readFileSync(source, "utf8");
  const name = `assets/theme-${createHash("sha256").update(code).digest("hex").slice(0, 8)}.js`;
  return {
    name: "early-theme",
    configResolved(config) {
      building = config.command === "build";
    },
    buildStart() {
      if (building) this.emitFile({ type: "asset", fileName: name, source: code });
    },
    transformIndexHtml: {
      order: "post",
      handler(html) {
        return {
          html,
          tags: [{ tag: "script", attrs: { src: building ? `/${name}` : tag }, injectTo: "head-prepend" }],
        };
      },
    },
  };
}
