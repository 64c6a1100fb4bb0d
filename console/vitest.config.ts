import { fileURLToPath } from "node:url";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

export default defineConfig({
  plugins: [react()],
  resolve: { alias: { "@": fileURLToPath(new URL("./src", import.meta.url)) } },
  cacheDir: process.env.CONSOLE_CACHE ?? "/tmp/signalbox-console-vitest",
  // A test compares the commands that the console shows with the pages about the command line.
  server: { fs: { allow: [".."] } },
  test: {
    environment: "jsdom",
    environmentOptions: { jsdom: { url: "http://127.0.0.1:5173/" } },
    include: ["src/**/*.test.{ts,tsx}"],
    setupFiles: ["src/test/setup.ts"],
    maxWorkers: 2,
    testTimeout: 15_000,
  },
});
