import { fileURLToPath } from "node:url";
import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";
import { earlyTheme } from "./vite/early-theme.ts";

// The server that the development server passes requests of the API and of the sign-in pages to.
const upstream = process.env.CONSOLE_UPSTREAM ?? "http://127.0.0.1:8080";
const proxied = ["/api", "/auth", "/inference", "/docs", "/login", "/device", "/pages", "/healthz"];
const proxy = Object.fromEntries(proxied.map((path) => [path, { target: upstream, changeOrigin: false }]));

// The policy that the server sends with the console.
const policy =
  "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; frame-ancestors 'none'";

export default defineConfig({
  base: "/",
  plugins: [react(), tailwindcss(), earlyTheme()],
  resolve: { alias: { "@": fileURLToPath(new URL("./src", import.meta.url)) } },
  // node_modules is a symbolic link into a cache that several checkouts share, so this one has its own cache folder.
  cacheDir: process.env.CONSOLE_CACHE ?? "/tmp/signalbox-console-vite",
  server: { host: "127.0.0.1", port: 5173, strictPort: true, proxy, fs: { strict: false } },
  preview: {
    host: "127.0.0.1",
    port: 4173,
    strictPort: true,
    proxy,
    headers: { "Content-Security-Policy": policy },
  },
  build: {
    outDir: process.env.CONSOLE_OUT ?? "../gateway/internal/webpage/console",
    emptyOutDir: false,
    assetsDir: "assets",
    assetsInlineLimit: 0,
    sourcemap: false,
    manifest: "manifest.json",
    modulePreload: { polyfill: false },
    target: "es2023",
    rolldownOptions: {
      output: {
        // What every screen needs is in few files, which compress better than many small ones.
        codeSplitting: {
          groups: [
            {
              name: "areas",
              test: /console\/src\/(app\/(area|config|nav|root|router|routes)|screens\/[^/]+\/(area|search|filters))\.ts$/,
            },
            {
              name: "base",
              test: /node_modules\/(react|react-dom|scheduler|@tanstack\/(react-router|router-core|history|react-store|store|react-query|query-core)|i18next|react-i18next|use-sync-external-store|openapi-fetch|eventsource-parser)\//,
            },
            {
              name: "ui",
              test: /console\/src\/(ui\/(?!MarkdownBody|MorePopover|Popover|ToasterMessages|ListScreen|list-columns|table\/growing)|lib\/|api\/)|node_modules\/(@radix-ui(?!\/react-popover)|@floating-ui|aria-hidden|react-remove-scroll|react-style-singleton|use-callback-ref|use-sidecar|@tanstack\/(react-virtual|virtual-core))/,
            },
          ],
        },
      },
    },
  },
});
