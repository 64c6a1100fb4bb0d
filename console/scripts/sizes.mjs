// Checks the sizes of the built console: the JavaScript that /jobs needs at its start, and every chunk that is loaded later.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

const folder = process.argv[2];
const most = { initial: 230, lazy: 60 };
const manifest = JSON.parse(readFileSync(join(folder, "manifest.json"), "utf8"));
const size = (file) => gzipSync(readFileSync(join(folder, file)), { level: 9 }).length / 1024;

// reach returns the chunks that are loaded with a chunk.
const reach = (key, seen = new Set()) => {
  if (seen.has(key)) return seen;
  seen.add(key);
  for (const next of manifest[key]?.imports ?? []) reach(next, seen);
  return seen;
};

const start = [
  "index.html",
  "src/app/Shell.tsx",
  "src/screens/jobs/JobsScreen.tsx",
  "src/i18n/en.json",
  "src/i18n/errors.en.json",
  "src/screens/jobs/en.json",
];
const initial = new Set(
  start
    .flatMap((key) => (manifest[key] ? [...reach(key)] : []))
    .map((key) => manifest[key].file)
    .filter((f) => f.endsWith(".js")),
);
const scripts = [
  ...new Set(
    Object.values(manifest)
      .map((chunk) => chunk.file)
      .filter((f) => f.endsWith(".js")),
  ),
];
const total = [...initial].reduce((sum, file) => sum + size(file), 0);
const large = scripts
  .filter((file) => !initial.has(file))
  .map((file) => [file, size(file)])
  .sort((a, b) => b[1] - a[1]);

console.log(`initial JavaScript of /jobs: ${total.toFixed(1)} KB of ${most.initial}, in ${initial.size} files`);
for (const [file, kb] of large.slice(0, 6)) console.log(`  ${kb.toFixed(1).padStart(6)} KB  ${file}`);
const failed = large.filter(([, kb]) => kb > most.lazy);
if (total > most.initial || failed.length > 0) {
  console.error(`too large: ${total > most.initial ? "the start of /jobs" : failed.map(([f]) => f).join(", ")}`);
  process.exit(1);
}
